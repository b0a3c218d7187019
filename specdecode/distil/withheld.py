"""Prompts that must not be trained on, known by digests of their word runs only.

A text meets a withheld prompt if it has a run of 13 words in common with it. A prompt of 6 to 12
words is met where all of them follow one another; a shorter one where a user turn says just that,
as "Hello" or "Why?" would be met everywhere.

Digests suffice to compare, so a holder of confirmation prompts can give this file away and keep
their text (`specdecode distil withhold`). They are no encryption: who guesses a run can confirm it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.distil.texts import write_page
from specdecode.errors import ConfigError
from specdecode.workload.prompts import load_prompts
from specdecode.workload.similarity import NGRAM_WORDS
from specdecode.workload.text import fold, words

FEWEST_WORDS = 6
SCHEMA = "specdecode.withheld/1"


class WithheldPage(BaseModel):
    """A file of digests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_name: str = Field(SCHEMA, alias="schema", pattern=f"^{SCHEMA}$")
    salt: str = Field(description="stands before the words in each digest")
    prompts: int = Field(ge=1)
    runs: dict[int, frozenset[str]] = Field(description="digests by number of words")
    whole: frozenset[str] = Field(description="digests of whole prompts")


@dataclass(frozen=True)
class Withheld:
    """Several of them.

    Attributes:
        pages: what is compared with.
    """

    pages: tuple[WithheldPage, ...]

    def meets(self, *, turn: str, reply: str) -> bool:
        """Whether a user turn, a reply, or both in a row hold what is withheld."""
        asked, said = _sequence(turn), _sequence(reply)
        for page in self.pages:
            if _digest(page.salt, asked) in page.whole:
                return True
            for text in (asked, said):
                for size, known in page.runs.items():
                    if any(_digest(page.salt, run) in known for run in _runs(text, size)):
                        return True
        return False


def digests_of(texts: Iterable[str], salt: str) -> WithheldPage:
    """The page of some prompts.

    Raises:
        ConfigError: there is none, or an empty one.
    """
    runs: dict[int, set[str]] = {}
    whole: set[str] = set()
    count = 0
    for count, text in enumerate(texts, 1):
        found = _sequence(text)
        if found == [""]:
            raise ConfigError(f"withheld prompt {count} is empty, so nothing can meet it")
        whole.add(_digest(salt, found))
        size = min(NGRAM_WORDS, len(found))
        if size >= FEWEST_WORDS:
            own = runs.setdefault(size, set())
            own.update(_digest(salt, run) for run in _runs(found, size))
    if not count:
        raise ConfigError("no withheld prompts: comparing with nothing would pass for a check")
    return WithheldPage(
        schema=SCHEMA,
        salt=salt,
        prompts=count,
        runs={size: frozenset(found) for size, found in runs.items()},
        whole=frozenset(whole),
    )


def read_withheld(path: Path | str) -> WithheldPage:
    """A file of digests (`.json`), or prompts in plain text (JSON lines, or a folder of them).

    Raises:
        ConfigError: the file is not what `write_withheld` makes.
        PromptFileError: see `load_prompts`.
    """
    path = Path(path)
    if path.suffix != ".json":
        prompts = load_prompts(path, first_turn_only=True)
        return digests_of((prompt.text for prompt in prompts), salt="")
    try:
        return WithheldPage.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ConfigError(
            f"'{path}' is no file of withheld prompts ({error}); make it with `specdecode distil "
            "withhold PROMPTS --out FILE.json`"
        ) from error


def write_withheld(prompts: Path, out: Path) -> WithheldPage:
    """Write the digests of prompts for somebody who may not read them."""
    texts = [prompt.text for prompt in load_prompts(prompts, first_turn_only=True)]
    page = digests_of(texts, secrets.token_hex(16))
    content = page.model_dump(mode="json", by_alias=True)
    content["whole"] = sorted(content["whole"])
    content["runs"] = {size: sorted(found) for size, found in content["runs"].items()}
    write_page(out, content)
    return page


def _sequence(text: str) -> list[str]:
    """Words, or the whole text where it has none, such as a prompt of signs only."""
    return words(text) or [fold(text)]


def _runs(text: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (text[i : i + size] for i in range(len(text) - size + 1))


def _digest(salt: str, run: Sequence[str]) -> str:
    return hashlib.blake2b(f"{salt} {' '.join(run)}".encode(), digest_size=12).hexdigest()
