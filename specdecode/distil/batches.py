"""The texts as batches: which go together in which step, and what a step reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specdecode.distil.loss import Terms, Wanted, distance
from specdecode.distil.texts import Conversation

MICRO_TOKENS = 2048
"""Tokens at a time, padding included: the logits of one go decide how much memory is needed."""


class Piece(NamedTuple):
    """Texts that go through the draft together.

    Attributes:
        tokens: int64 `[B, T]`, padded at the end with token 0, which no earlier token can see.
        rows: int64 `[R]`, which of the B·T states predict a token the target wrote.
        wanted: the target's law after each of these.
    """

    tokens: Tensor
    rows: Tensor
    wanted: Wanted

    def distance(self, states: Tensor, head: Tensor) -> Terms:
        """How far a draft is from the target.

        Args:
            states: float `[B, T, H]`, its normed states.
            head: float `[M, H]`, its output head.
        """
        chosen = states.flatten(0, 1)[self.rows]
        return distance(chosen @ head.to(chosen.dtype).T, self.wanted)


def steps_of(lengths: Sequence[int], batch_tokens: int, seed: int, number: int) -> list[list[int]]:
    """Which texts each step of a pass reads; every text is in exactly one of them.

    Args:
        lengths: tokens of each text.
        batch_tokens: a step is full when it has as many.
        seed: of the order.
        number: of the pass; each has an order of its own.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
    steps: list[list[int]] = []
    size = batch_tokens
    for index in torch.randperm(len(lengths), generator=generator).tolist():
        if size >= batch_tokens:
            steps.append([])
            size = 0
        steps[-1].append(index)
        size += lengths[index]
    return steps


def pieces(
    texts: Sequence[Conversation], lookup: Tensor, device: torch.device, most: int = MICRO_TOKENS
) -> Iterator[Piece]:
    """Cut a step's texts into pieces of about one length each.

    Args:
        texts: of the step.
        lookup: int64 `[V]`, which of the draft's tokens a token is; -1 for none.
        device: where the pieces go.
        most: tokens of a piece, if it has more than one text.
    """
    ordered = sorted((t for t in texts if len(t.scored)), key=lambda t: len(t.tokens))
    group: list[Conversation] = []
    for text in ordered:
        if group and len(text.tokens) * (len(group) + 1) > most:
            yield _piece(group, lookup, device)
            group = []
        group.append(text)
    if group:
        yield _piece(group, lookup, device)


def _piece(texts: Sequence[Conversation], lookup: Tensor, device: torch.device) -> Piece:
    width = max(len(text.tokens) for text in texts)
    tokens = torch.zeros(len(texts), width, dtype=torch.long)
    rows = []
    for index, text in enumerate(texts):
        tokens[index, : len(text.tokens)] = text.tokens
        rows.append(index * width + text.scored - 1)
    ids = torch.cat([text.top_ids for text in texts]).long()
    return Piece(
        tokens.to(device),
        torch.cat(rows).to(device),
        Wanted(
            lookup[ids].to(device),
            torch.cat([text.top_probs for text in texts]).float().to(device),
            torch.cat([text.tail for text in texts]).float().to(device),
            lookup[torch.cat([text.tokens[text.scored] for text in texts])].to(device),
        ),
    )


def lookup_of(ids: Tensor, vocab_size: int) -> Tensor:
    """The inverse of a list of tokens: int64 `[V]`, -1 where there is none."""
    lookup = torch.full((vocab_size,), -1, dtype=torch.long)
    lookup[ids] = torch.arange(len(ids))
    return lookup
