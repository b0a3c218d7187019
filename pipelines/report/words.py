"""What the page says, language by language: a catalogue of texts, and numbers as people read them.

A text lives in `texts/LANGUAGE/*.yaml` under the same key in every language. A key that is missing
is an error and never an empty place on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from specdecode.errors import ConfigError

LANGUAGES = ("en", "ja")
# YAML joins lines with a blank, which Japanese does not have between its characters.
_FOLD = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) (?=[\u3000-\u9fff\uff00-\uffef])")
FOLDER = Path(__file__).parent / "texts"


@dataclass(frozen=True)
class Words:
    """The texts of one language.

    Attributes:
        language: BCP 47 tag, as in `<html lang>`.
        texts: dotted key to text, with `{names}` where values go.
    """

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, /, **values: object) -> str:
        """The text of a key with its values filled in.

        Raises:
            ConfigError: the catalogue lacks the key, or the text names a value that is not given.
        """
        if key not in self.texts:
            raise ConfigError(f"texts/{self.language}: no text {key!r}; add it to every language")
        try:
            return self.texts[key].format(**values)
        except KeyError as error:
            raise ConfigError(f"texts/{self.language}: {key!r} names {error}, not given") from error

    def label(self, group: str, code: str) -> str:
        """What a code of the data is called; a code nobody foresaw is shown as it is."""
        return self.texts.get(f"{group}.{code}", code)

    def count(self, key: str, n: int) -> str:
        """A number of things: the text `key.one` or `key.many`."""
        return self(f"{key}.{'one' if n == 1 else 'many'}", n=n)

    def number(
        self, value: float | None, digits: int = 2, unit: str = "", scale: float = 1.0
    ) -> str:
        """Format a number for people; None is "not measured", never 0."""
        if value is None:
            return self("not_measured")
        return f"{value * scale:,.{digits}f}{unit}"

    def interval(
        self, low: float | None, high: float | None, digits: int = 2, scale: float = 1.0
    ) -> str:
        """Format an interval. One-sided ones have an open end; none at all is said so."""
        if low is None and high is None:
            return self("no_interval")
        return self(
            "between",
            low="−∞" if low is None else self.number(low, digits, scale=scale),
            high="+∞" if high is None else self.number(high, digits, scale=scale),
        )

    def share(self, value: float | None, digits: int = 1) -> str:
        """Format a fraction as per cent."""
        return self.number(value, digits, " %", scale=100.0)

    def figure(self, value: float | None) -> str:
        """Four significant digits; a rule need not have every number, which is a dash."""
        return "–" if value is None else f"{value:.4g}"

    def figures(self, low: float | None, high: float | None) -> str:
        """Both ends of an interval as `figure`s."""
        if low is None and high is None:
            return "–"
        return self("between", low=self.figure(low), high=self.figure(high))


@cache
def words(language: str) -> Words:
    """The catalogue of a language.

    Raises:
        ConfigError: there is none, or two of its files give a key twice.
    """
    files = sorted((FOLDER / language).glob("*.yaml"))
    if not files:
        raise ConfigError(f"no texts for {language!r}; there are: {', '.join(LANGUAGES)}")
    texts: dict[str, str] = {}
    for file in files:
        for key, text in _leaves(yaml.safe_load(file.read_text(encoding="utf-8"))):
            if key in texts:
                raise ConfigError(f"{file.name}: {key!r} is given twice in {language}")
            texts[key] = text
    return Words(language, texts)


def _leaves(node: Mapping[str, object], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", _FOLD.sub("", str(value))
