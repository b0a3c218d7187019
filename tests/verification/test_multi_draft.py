"""Several candidates for one position: the law that comes out, the candidates that go in."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.verification import (
    Coins,
    DraftTree,
    draw_without_replacement,
    multi_draft_verification,
    token_verification,
    traversal_verification,
)
from specdecode.verification.exact_rules import token_rule
from specdecode.verification.exact_tree import drawn_trees, multi_draft_law
from specdecode.verification.exact_tree_kernel import kernel_multi_draft_law
from tests.strategies import inputs_from_seed, laws

BELOW_ONE = math.nextafter(1, 0)


def draws(q, count, *, replacement=False):
    """(candidates, probability) of every way to draw them."""
    trees = drawn_trees(lambda prefix: q, ((),) * count, replacement=replacement)
    for tree, weight in trees:
        yield tuple(x for x, _ in tree), weight


def emitted(q, p, count, law=multi_draft_law, *, replacement=False):
    """Law of the emitted token, and the probability that a candidate was accepted."""
    tokens, accepted = defaultdict(Fraction), Fraction(0)
    for candidates, weight in draws(q, count, replacement=replacement):
        for (place, token), share in law(candidates, q, p, replacement=replacement).items():
            tokens[token] += weight * share
            accepted += weight * share if place >= 0 else 0
    return tokens, accepted


@st.composite
def pairs(draw):
    """(draft law, target law, K)."""
    vocabulary = draw(st.integers(2, 4))
    return draw(laws(vocabulary)), draw(laws(vocabulary)), draw(st.integers(1, 3))


@pytest.mark.parametrize("replacement", [False, True])
@settings(max_examples=60, deadline=None)
@given(pair=pairs())
def test_oracle_emits_exactly_the_target_law(replacement, pair):
    q, p, count = pair

    tokens, _ = emitted(q, p, count, replacement=replacement)

    assert [tokens[x] for x in range(len(p))] == list(p)


@pytest.mark.parametrize("replacement", [False, True])
@settings(max_examples=40, deadline=None)
@given(pair=pairs())
def test_kernel_and_oracle_have_the_same_law_for_every_draw(replacement, pair):
    q, p, count = pair

    for candidates, _ in draws(q, count, replacement=replacement):
        kernel = kernel_multi_draft_law(candidates, q, p, replacement=replacement)
        oracle = multi_draft_law(candidates, q, p, replacement=replacement)
        for outcome in kernel.keys() | oracle.keys():
            assert kernel.get(outcome, 0) == pytest.approx(float(oracle.get(outcome, 0)), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(pair=pairs())
def test_one_candidate_is_token_verification_of_one_token(pair):
    q, p, _ = pair

    for (x,), _ in draws(q, 1):
        token = token_rule((x,), [q], [p, p])
        found = multi_draft_law((x,), q, p)
        # Once it has accepted, the token rule goes on to a bonus token.
        assert found.get((0, x), 0) == sum(share for (tau, _), share in token.items() if tau == 1)
        rejected = {y: share for (tau, y), share in token.items() if tau == 0}
        assert {y: share for (place, y), share in found.items() if place < 0} == rejected


# Without replacement was never seen to lose in a search over random laws; derandomised because no
# proof stands behind it.
@settings(max_examples=100, deadline=None, derandomize=True)
@given(pair=pairs())
def test_without_replacement_accepts_at_least_as_often_as_with_and_that_as_one(pair):
    q, p, count = pair

    _, without = emitted(q, p, count)
    _, with_ = emitted(q, p, count, replacement=True)
    _, single = emitted(q, p, 1)

    assert single == sum(map(min, p, q))
    assert without >= with_ >= single


@pytest.mark.parametrize(
    ("q", "p", "count", "expected"),
    [
        # Both tokens drawn: one of them is the target's.
        ("2/3 1/3", "1/3 2/3", 2, ("1", "7/9", "2/3")),
        ("1/2 1/3 1/6", "1/6 1/3 1/2", 2, ("7/9", "13/18", "2/3")),
        ("1/2 1/3 1/6", "1/6 1/3 1/2", 3, ("1", "83/108", "2/3")),
    ],
)
def test_golden_acceptance_without_and_with_replacement_and_single(q, p, count, expected):
    q, p = (tuple(map(Fraction, law.split())) for law in (q, p))

    found = (
        emitted(q, p, count)[1],
        emitted(q, p, count, replacement=True)[1],
        emitted(q, p, 1)[1],
    )

    assert found == tuple(map(Fraction, expected))
    kernel = emitted(q, p, count, kernel_multi_draft_law)[1]
    assert kernel == pytest.approx(float(found[0]), abs=1e-12)


def batch(seed, count, *, vocabulary=50, rows=64):
    """Candidates of honest sparse laws, their rows and coins, and a batch of mixed lengths."""
    case = inputs_from_seed(seed, batch=rows, gamma=max(count, 1), vocabulary=vocabulary)
    rng = torch.Generator().manual_seed(seed)
    q, p = case.draft_probs[:, 0], case.target_probs[:, 0]
    drawn = draw_without_replacement(q, torch.rand(rows, count, generator=rng, dtype=torch.float64))
    return drawn, q, p, Coins(case.coins.accept[:, :count], case.coins.resample)


def test_one_candidate_decides_like_token_verification_on_tensors():
    drawn, q, p, coins = batch(3, 1)
    both = torch.stack([p, p], 1)

    found = multi_draft_verification(drawn.tokens, q, p, coins)
    token = token_verification(drawn.tokens, q[:, None], both, coins)

    kept = token.num_accepted == 1
    assert torch.equal(found.accepted == 0, kept)
    assert torch.equal(found.token, drawn.tokens[:, 0].where(kept, token.next_token))
    assert 0 < kept.sum() < len(kept)


def test_a_tree_of_one_level_decides_alike():
    drawn, q, p, coins = batch(4, 3, vocabulary=6, rows=256)
    real = drawn.tokens >= 0
    rows = p[:, None].expand(-1, 4, -1)

    found = multi_draft_verification(drawn.tokens, q, p, coins, drawn.lengths)
    tree = DraftTree((0, 0, 0), drawn.tokens, q[:, None], real)
    other = traversal_verification(tree, rows, coins)

    assert torch.equal(found.accepted + 1, other.node)
    assert torch.equal(found.token[found.accepted < 0], other.next_token[other.node == 0])
    assert set(found.accepted.tolist()) == {-1, 0, 1, 2}


def test_rows_of_mixed_lengths_equal_the_rows_alone_and_padding_may_be_anything():
    drawn, q, p, coins = batch(5, 3, vocabulary=6)
    lengths = drawn.lengths.clone()
    lengths[::3] = lengths[::3].clamp(max=1)
    lengths[5] = 0
    beyond = torch.arange(3) >= lengths[:, None]
    tokens = drawn.tokens.masked_fill(beyond, -7)
    accept = coins.accept.masked_fill(beyond, 7.0)
    q = torch.where((lengths == 0)[:, None], math.nan, q)

    whole = multi_draft_verification(tokens, q, p, Coins(accept, coins.resample), lengths)

    assert len(set(lengths.tolist())) == 4
    for b, n in enumerate(lengths.tolist()):
        alone = multi_draft_verification(
            tokens[b : b + 1, :n],
            q[b : b + 1],
            p[b : b + 1],
            Coins(accept[b : b + 1, :n], coins.resample[b : b + 1]),
        )
        assert (alone.accepted.item(), alone.token.item()) == (
            whole.accepted[b].item(),
            whole.token[b].item(),
        )


def test_no_candidate_samples_the_target():
    p = torch.tensor([[0.2, 0.3, 0.5]] * 2)
    coins = Coins(torch.zeros(2, 0), torch.tensor([0.1, 0.9]))

    found = multi_draft_verification(torch.zeros(2, 0, dtype=torch.int64), p, p, coins)

    assert found.accepted.tolist() == [-1, -1]
    assert found.token.tolist() == [0, 2]


def test_a_token_that_the_target_excludes_is_never_accepted():
    q = torch.tensor([[0.5, 0.5, 0.0]])
    p = torch.tensor([[0.0, 0.0, 1.0]])
    coins = Coins(torch.zeros(1, 2), torch.tensor([BELOW_ONE], dtype=torch.float64))

    found = multi_draft_verification(torch.tensor([[0, 1]]), q, p, coins)

    assert (found.accepted.item(), found.token.item()) == (-1, 2)


@pytest.mark.parametrize("law", ["1/6 2/6 3/6", "0 1/2 1/2", "0 0 1"])
def test_candidates_are_drawn_from_the_law_and_then_from_the_rest_of_it(law):
    q = tuple(map(Fraction, law.split()))
    steps = 60
    # 60 is a multiple of every denominator that can occur, so each cell holds whole coins.
    grid = [(i + 0.5) / steps for i in range(steps)]
    coins = torch.tensor(list(product(grid, grid)), dtype=torch.float64)
    rows = torch.tensor([[float(x) for x in q]], dtype=torch.float64).expand(len(coins), -1)

    found = draw_without_replacement(rows, coins)

    counts = Counter(tuple(x for x in row if x >= 0) for row in found.tokens.tolist())
    assert counts == {x: weight * steps**2 for x, weight in draws(q, 2)}
    assert found.lengths.unique().tolist() == [min(2, sum(x > 0 for x in q))]


def test_a_law_close_to_one_token_still_yields_the_others():
    # Subtracting the drawn token from 1 would leave rounding noise instead of the rest.
    q = torch.tensor([[1 - 3e-17, 1e-17, 2e-17]], dtype=torch.float64)

    first = draw_without_replacement(q, torch.tensor([[0.5, 0.3, 0.9]], dtype=torch.float64))

    assert first.tokens.tolist() == [[0, 1, 2]]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cpu_and_gpu_decide_alike():
    drawn, q, p, coins = batch(6, 3, vocabulary=5000)
    here = multi_draft_verification(drawn.tokens, q, p, coins, drawn.lengths)

    there = multi_draft_verification(
        drawn.tokens.cuda(),
        q.cuda(),
        p.cuda(),
        Coins(coins.accept.cuda(), coins.resample.cuda()),
        drawn.lengths.cuda(),
    )

    assert torch.equal(there.accepted.cpu(), here.accepted)
    assert torch.equal(there.token.cpu(), here.token)


def test_the_example_of_the_page_on_trees_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "trees.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]

    exec(compile(example, "docs/trees.md", "exec"), {})  # noqa: S102 - our own page

    assert capsys.readouterr().out.startswith("tensor([")
