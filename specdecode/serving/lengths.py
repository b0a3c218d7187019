"""Draft length by load: how many tokens a step drafts, by the number of replies decoded together.

A sweep (`specdecode.workload.sweep`) finds such a list; vLLM has the same under the name
`num_speculative_tokens_per_batch_size`. The number of replies is known before a step draws
anything, and it is all that is looked at, so replies keep the target's law
(`specdecode.drafting.length`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdecode.decoding.lengths import MakeLength
from specdecode.drafting.length import DraftLength
from specdecode.errors import ConfigError

_SHAPE = "[[first, last, draft length], …], such as [[1, 4, 5], [5, 16, 2], [17, 64, 0]]"


@dataclass(frozen=True)
class DraftLengths:
    """A draft length for every number of replies.

    Attributes:
        parts: (first, last, draft length), both ends included, without gaps from 1; more replies
            than the last part covers get its length.

    Raises:
        ConfigError: they are not such parts.
    """

    parts: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        expected = 1
        for first, last, length in self.parts:
            if first != expected:
                raise ConfigError(
                    f"draft lengths: a part begins at {first} where {expected} comes next; "
                    "parts follow each other without gaps from 1"
                )
            if last < first or length < 0:
                raise ConfigError(f"draft lengths: [{first}, {last}, {length}] is no {_SHAPE}")
            expected = last + 1
        if not self.parts:
            raise ConfigError(f"draft lengths: the list is empty; write {_SHAPE}")

    @classmethod
    def read(cls, given: str) -> DraftLengths:
        """From JSON, or from a file of it.

        Raises:
            ConfigError: there is no such file, or it holds something else.
        """
        text = given
        if not given.lstrip().startswith("["):
            try:
                text = Path(given).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"draft lengths: {given} cannot be read ({error})") from error
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"draft lengths: no JSON ({error}); write {_SHAPE}") from error
        if not isinstance(value, list) or not all(map(_is_part, value)):
            raise ConfigError(f"draft lengths: write {_SHAPE}, not {text.strip()[:200]}")
        return cls(tuple((first, last, length) for first, last, length in value))

    @property
    def most(self) -> int:
        """The longest."""
        return max(length for _, _, length in self.parts)

    def at(self, replies: int) -> int:
        """The length for so many replies, at least 1."""
        return next((k for _, last, k in self.parts if replies <= last), self.parts[-1][2])

    def capping(self, make: MakeLength, running: Callable[[], int]) -> MakeLength:
        """What decides a reply's lengths, and no more than the load allows.

        Args:
            make: decides otherwise, such as the acceptance guard: it can still choose less.
            running: number of replies decoded together in the next step.
        """
        return lambda request: _Capped(make(request), lambda: self.at(running()))

    def to_json(self) -> list[list[int]]:
        """The parts as they were written."""
        return [list(part) for part in self.parts]


class _Capped:
    def __init__(self, inner: DraftLength, cap: Callable[[], int]) -> None:
        self._inner, self._cap = inner, cap

    def choose(self, seconds: Sequence[float], most: int) -> int:
        """See `DraftLength.choose`."""
        return self._inner.choose(seconds, min(most, self._cap()))

    def observe(self, drafted: int, kept: int) -> None:
        """See `DraftLength.observe`."""
        self._inner.observe(drafted, kept)


def _is_part(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(type(each) is int for each in value)
