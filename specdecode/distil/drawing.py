"""Tokens drawn and laws kept for many rows at once, over a vocabulary cut into blocks.

Beside a forward pass for a hundred rows, looking for the best tokens of fifty thousand and adding
their probabilities up one by one are the next largest costs. Blocks of 64 tokens save most of it.
The K best tokens stand in the K blocks whose best is highest; and a token is drawn by drawing its
block and then the token in it, each with a coin of its own, which is the same law.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdecode.verification.resampling import inverse_cdf

_BLOCK = 64


class Drawn(NamedTuple):
    """What is kept of one step.

    Attributes:
        tokens: int64 `[B]`.
        ids: int32 `[B, K]`, the most likely tokens.
        probs: float32 `[B, K]`, their probabilities at temperature 1.
        tail: float32 `[B]`, probability of all others together.
    """

    tokens: Tensor
    ids: Tensor
    probs: Tensor
    tail: Tensor


def draw(logits: Tensor, temperatures: Tensor, coins: Tensor, kept: int) -> Drawn:
    """Draw a token a row.

    Args:
        logits: float32 `[B, V]`.
        temperatures: float32 `[B]`, above 0.
        coins: float64 `[B, 2]` in [0, 1), for the block and for the token in it.
        kept: K, if V is not smaller.
    """
    short = -logits.shape[1] % _BLOCK
    if short:  # tokens there are none of have no probability
        logits = pad(logits, (0, short), value=float("-inf"))
    laws = logits.softmax(-1)
    tokens = _drawn(laws, coins)
    other = (temperatures != 1).nonzero()[:, 0]
    if len(other):
        shaped = logits[other].div_(temperatures[other, None]).softmax(-1)
        tokens[other] = _drawn(shaped, coins[other])
    probs, ids = _largest(laws, min(kept, laws.shape[1] - short))
    return Drawn(tokens, ids.int(), probs, (1 - probs.sum(-1)).clamp_min(0))


def _drawn(weights: Tensor, coins: Tensor) -> Tensor:
    blocks = weights.view(len(weights), -1, _BLOCK)
    block = inverse_cdf(blocks.sum(-1), coins[:, 0])
    chosen = blocks[torch.arange(len(weights), device=weights.device), block]
    return block * _BLOCK + inverse_cdf(chosen, coins[:, 1])


def _largest(laws: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest values `[B, count]` and where they stand, falling."""
    blocks = laws.view(len(laws), -1, _BLOCK)
    if blocks.shape[1] <= count:
        found = laws.topk(count, -1)
        return found.values, found.indices
    best = blocks.amax(-1).topk(count, -1, sorted=False).indices
    candidates = blocks.gather(1, best[..., None].expand(-1, -1, _BLOCK)).flatten(1)
    found = candidates.topk(count, -1)
    block = best.gather(1, found.indices // _BLOCK)
    return found.values, block * _BLOCK + found.indices % _BLOCK
