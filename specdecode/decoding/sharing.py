"""Rows that begin with the same prompt: it is processed once, and its state is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SharedPrompts:
    """Which rows of a batch have a prompt in common.

    Attributes:
        prompts: the different prompts, in order of first appearance.
        source: per row, the index of its prompt.
    """

    prompts: list[list[int]]
    source: list[int]

    @classmethod
    def of(cls, prompts: Sequence[list[int]]) -> SharedPrompts:
        """Group equal prompts, whether they come from `n` or from the caller."""
        index: dict[tuple[int, ...], int] = {}
        source = [index.setdefault(tuple(prompt), len(index)) for prompt in prompts]
        return cls([list(prompt) for prompt in index], source)

    @property
    def any_shared(self) -> bool:
        """Whether a prompt has more than one row."""
        return len(self.prompts) < len(self.source)
