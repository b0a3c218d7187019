"""Where the audit's probabilities come from: the reference models, teacher-forced."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from specdecode.decoding.prompts import Prompt
from specdecode.errors import NumericalError

Pair = tuple[list[int], list[int]]

ONE_BY_ONE = "target, read one token at a time,"
"""What gave the logits of `Scorer.one_by_one`, as `check_finite` names it."""
DRAFT_ONE_BY_ONE = "draft, read one token at a time,"
"""Likewise of `Scorer.draft_one_by_one`."""


class Scorer(Protocol):
    """Logits of the reference target, and of the draft where it is known.

    Iterators give (index, float [len(output), V]) in order of index; row t is the prediction of
    output[t] from the prompt and output[:t].
    """

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def eos_token_ids(self) -> Collection[int]:
        """Ids that end a reply."""

    @property
    def max_context(self) -> int | None:
        """Longest prompt plus output, or None where there is no limit."""

    @property
    def has_draft(self) -> bool:
        """Whether `draft` may be called."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids."""

    def encode(self, prompt: Prompt, where: str) -> list[int]:
        """Token ids of a prompt given as text or chat messages; `where` names it in errors."""

    def target(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """Target logits of (prompt, output) pairs, many tokens per forward pass."""

    def draft(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """Draft logits of (prompt, output) pairs; a row of -infinity proposes nothing there."""

    def one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        """Target logits computed one token per forward pass: [len(output), V]."""

    def draft_one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        """Draft logits as an engine computes them, one token per forward pass: [len(output), V]."""


def check_finite(logits: Tensor, label: str, whose: str) -> None:
    """Refuses NaN and +infinity; -infinity is a legitimate "never".

    Raises:
        NumericalError: names the row and the first bad position.
    """
    bad = (torch.isnan(logits) | torch.isposinf(logits)).any(-1)
    if bad.any():
        position = int(bad.nonzero()[0])
        raise NumericalError(
            f"{label}: the {whose} gives NaN or infinite logits at output position {position}; "
            "a reference that is not finite can judge nothing"
        )
