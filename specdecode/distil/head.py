"""The output head and the loss in one, with a gradient written out.

Logits of two thousand positions over the vocabulary are the largest thing in training, and taken
as ordinary operators they are read and written about ten times a step. The loss asks for the
draft's log-probabilities at few places only, so all get their gradient from those few:

    dL/dz = scatter(g) - q · Σ g,    g = dL / d(log q at the places asked for)

and one pass forth and back, over some rows at a time that stay in the processor's cache, is enough.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from specdecode.distil.loss import Terms, Wanted, row_terms

_CHUNK = 2**20
"""Logits at a time."""


def head_loss(
    states: Tensor, head: Tensor, wanted: Wanted, kl_weight: float
) -> tuple[Tensor, Terms]:
    """`distance` of a draft's states, ready for `backward`.

    Args:
        states: float `[R, H]`, normed, in the precision of the products.
        head: float `[M, H]`, in any precision.
        wanted: the target's law after each of them.
        kl_weight: of KL in the loss.

    Returns:
        The loss tv + kl_weight · kl, a scalar, and its terms, without gradients.
    """
    loss, tv, kl = _HeadLoss.apply(states, head, kl_weight, *wanted)
    return loss, Terms(tv, kl)


class _HeadLoss(torch.autograd.Function):  # type: ignore[misc] # torch is not followed
    """Its gradients are computed forth, while the logits are there."""

    @staticmethod
    def forward(
        context: Any, states: Tensor, head: Tensor, kl_weight: float, *parts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        wanted, rows = Wanted(*parts), len(states)
        product = head.to(states.dtype)
        slopes = states @ product.T  # logits first, which their slopes overwrite piece by piece
        sums = torch.zeros(2, dtype=torch.float64, device=states.device)
        size = max(1, _CHUNK // len(head))
        for first in range(0, rows, size):
            part = slice(first, first + size)
            sums += _slopes(slopes[part], wanted.rows(part), kl_weight, rows)
        tv, kl = (sums / rows).float()
        context.save_for_backward(slopes @ product, (slopes.T @ states).to(head.dtype))
        context.mark_non_differentiable(tv, kl)
        return tv + kl_weight * kl, tv, kl

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        for_states, for_head = context.saved_tensors
        return for_states * slopes[0], for_head * slopes[0], None, None, None, None, None


def _slopes(logits: Tensor, wanted: Wanted, kl_weight: float, rows: int) -> Tensor:
    """Turn logits into the slopes of the loss; returns the sums of both terms, float64 `[2]`.

    Args:
        logits: float `[R, M]`; overwritten.
        wanted: the target's law.
        kl_weight: of KL in the loss.
        rows: over how many the loss is a mean.
    """
    asked, full = wanted.asked, logits.float()
    norm = full.logsumexp(-1, keepdim=True)
    with torch.enable_grad():
        log_q = (full.gather(-1, asked) - norm).detach().requires_grad_()
        terms = row_terms(log_q, wanted)
        (slope,) = torch.autograd.grad((terms.tv + kl_weight * terms.kl).sum() / rows, log_q)
    q = full.sub_(norm).exp_()
    q.mul_(-slope.sum(-1, keepdim=True)).scatter_add_(-1, asked, slope)
    logits.copy_(q)
    return torch.stack([term.detach().double().sum() for term in terms])
