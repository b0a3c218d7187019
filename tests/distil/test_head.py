"""Head and loss in one have the value and the gradients of the loss taken step by step."""

from __future__ import annotations

import pytest
import torch

from specdecode.distil import head as head_part
from specdecode.distil.head import head_loss
from specdecode.distil.loss import Wanted, distance

ROWS, WIDTH, TOKENS, KEPT = 7, 8, 20, 5


@pytest.fixture(scope="module")
def lesson():
    """States, a head, and laws of which some tokens are none of the head's."""
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(ROWS, WIDTH, generator=generator)
    head = torch.randn(TOKENS, WIDTH, generator=generator)
    law = (2 * torch.randn(ROWS, TOKENS + 4, generator=generator)).softmax(-1)
    top = law.topk(KEPT)
    lookup = torch.cat([torch.arange(TOKENS), torch.full((4,), -1)])[
        torch.randperm(TOKENS + 4, generator=generator)
    ]
    drawn = torch.multinomial(law, 1, generator=generator)[:, 0]
    return (
        states,
        head,
        Wanted(lookup[top.indices], top.values, 1 - top.values.sum(-1), lookup[drawn]),
    )


@pytest.mark.parametrize("rows_at_a_time", [1, 3, 100])
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_value_and_gradients_are_those_of_the_loss(lesson, weight, rows_at_a_time, monkeypatch):
    monkeypatch.setattr(head_part, "_CHUNK", rows_at_a_time * TOKENS)
    states, head, wanted = lesson
    mine, theirs = ([t.clone().requires_grad_() for t in (states, head)] for _ in range(2))

    loss, terms = head_loss(*mine, wanted, weight)
    (3 * loss).backward()
    exact = distance(theirs[0] @ theirs[1].T, wanted)
    (3 * (exact.tv + weight * exact.kl)).backward()

    torch.testing.assert_close(terms.tv, exact.tv)
    torch.testing.assert_close(terms.kl, exact.kl)
    torch.testing.assert_close(loss, exact.tv + weight * exact.kl)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)


def test_rounded_products_leave_the_heads_gradient_in_full_precision(lesson):
    states, head, wanted = lesson
    rounded, weight = states.bfloat16().requires_grad_(), head.clone().requires_grad_()
    theirs = [t.clone().requires_grad_() for t in (states, head)]

    loss, _ = head_loss(rounded, weight, wanted, 0.5)
    loss.backward()
    exact = distance(theirs[0] @ theirs[1].T, wanted)
    (exact.tv + 0.5 * exact.kl).backward()

    torch.testing.assert_close(
        loss.detach(), (exact.tv + 0.5 * exact.kl).detach(), rtol=0.02, atol=0.02
    )
    assert (rounded.grad.dtype, weight.grad.dtype) == (torch.bfloat16, torch.float32)
    for mine, other in zip((rounded.grad.float(), weight.grad), theirs, strict=True):
        error = (mine - other.grad).square().sum() / other.grad.square().sum()
        assert float(error) < 1e-3
