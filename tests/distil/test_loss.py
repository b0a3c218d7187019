"""The loss is what it says of laws that are small enough to write down."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.distil.loss import Wanted, distance

V = 6


def stored(p, kept, drawn=None, places=None):
    """A law as a shard has it, over a draft that can propose everything."""
    p = torch.tensor(p, dtype=torch.float64)
    top = p.topk(kept)
    lookup = torch.arange(V) if places is None else places
    token = int(top.indices[0]) if drawn is None else drawn
    tail = (1 - top.values.sum()).clamp_min(0)
    return Wanted(lookup[top.indices][None], top.values[None], tail[None], lookup[token][None])


@st.composite
def laws(draw):
    weights = draw(st.lists(st.integers(1, 50), min_size=V, max_size=V))
    return [w / sum(weights) for w in weights]


@settings(deadline=None, max_examples=40)
@given(laws(), laws())
def test_with_every_token_stored_it_is_total_variation_and_kl(p, q):
    logits = torch.tensor([q], dtype=torch.float64).log()

    tv, kl = distance(logits, stored(p, V))

    exact = torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)
    assert float(tv) == pytest.approx(1 - float(torch.minimum(*exact).sum()), abs=1e-6)
    assert float(kl) == pytest.approx(
        float((exact[0] * (exact[0] / exact[1]).log()).sum()), abs=1e-6
    )


@settings(deadline=None, max_examples=40)
@given(laws(), laws(), st.integers(1, V - 1))
def test_with_a_tail_the_overlap_is_never_too_small(p, q, kept):
    logits = torch.tensor([q], dtype=torch.float64).log()
    true = sum(map(min, p, q))
    assert 1 - float(distance(logits, stored(p, kept)).tv) >= true - 1e-6


@settings(deadline=None, max_examples=40)
@given(laws(), laws(), st.integers(1, V - 1))
def test_over_tokens_drawn_from_the_target_the_mean_is_the_whole_kl(p, q, kept):
    logits = torch.tensor([q], dtype=torch.float64).log()

    mean = sum(p[y] * float(distance(logits, stored(p, kept, y)).kl) for y in range(V))

    entropy_in_tail = _tail_entropy(p, kept)
    whole = sum(a * float(torch.tensor(a / b).log()) for a, b in zip(p, q, strict=True))
    assert mean == pytest.approx(whole + entropy_in_tail, abs=1e-5)


def _tail_entropy(p, kept):
    """What hangs on p alone, and no draft can change."""
    rest = torch.tensor(sorted(p)[: V - kept], dtype=torch.float64)
    return float(-(rest * (rest / rest.sum()).log()).sum())


def test_tokens_the_draft_cannot_propose_are_distance_and_nothing_infinite():
    places = torch.tensor([0, 1, -1, -1, -1, -1])
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)

    tv, kl = distance(logits, stored([0.3, 0.2, 0.2, 0.1, 0.1, 0.1], V, places=places))
    (tv + kl).backward()

    assert float(tv.detach()) == pytest.approx(1 - 0.3 - 0.2, abs=1e-6)
    assert bool(torch.isfinite(logits.grad).all())
    assert float(logits.grad[0, 0]) < 0  # more of the likelier token, please


def test_lowering_it_leads_to_the_target():
    logits = torch.zeros(1, V, dtype=torch.float64, requires_grad=True)
    law = [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]
    optimizer = torch.optim.Adam([logits], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        terms = distance(logits, stored(law, V))
        (terms.tv + 0.1 * terms.kl).backward()
        optimizer.step()
    assert float(terms.tv) < 0.03
