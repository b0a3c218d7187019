"""Decisions for fixed coins: the tensor code against the plain-Python reference, coin by coin."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.verification import RULES, Coins
from specdecode.verification.block import block_acceptance
from specdecode.verification.exact import sequence_law
from specdecode.verification.greedy_block import greedy_block_acceptance
from specdecode.verification.token import token_acceptance
from specdecode.verification.types import DraftBlock
from tests.strategies import Inputs, inputs, inputs_from_seed, uniforms
from tests.verification.reference import judge

BELOW_ONE = math.nextafter(1, 0)


def outcome(verification):
    return list(
        zip(verification.num_accepted.tolist(), verification.next_token.tolist(), strict=True)
    )


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=80, deadline=None)
@given(case=inputs())
def test_kernel_decides_like_the_reference(name, case):
    assert outcome(case.run(RULES[name])) == judge(name, case)


@pytest.mark.parametrize("name", RULES)
def test_kernel_decides_like_the_reference_in_a_large_batch(name):
    case = inputs_from_seed(5, batch=400, gamma=6, vocabulary=7, ragged=True)

    assert outcome(case.run(RULES[name])) == judge(name, case)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(case=inputs(), extreme=st.sampled_from((0.0, BELOW_ONE)), u=uniforms)
def test_extreme_coins_never_emit_a_token_the_target_excludes(name, case, extreme, u):
    coins = Coins(
        torch.full_like(case.coins.accept, extreme), torch.full_like(case.coins.resample, u)
    )
    case = Inputs(case.draft_tokens, case.draft_probs, case.target_probs, coins, case.lengths)

    for b, (kept, token) in enumerate(outcome(case.run(RULES[name]))):
        emitted = [*case.draft_tokens[b, :kept].tolist(), token]
        for i, x in enumerate(emitted):
            assert case.target_probs[b, i, x] > 0


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(case=inputs())
def test_outcomes_are_in_range(name, case):
    found = case.run(RULES[name])

    assert found.num_accepted.dtype == found.next_token.dtype == torch.int64
    assert bool(((found.num_accepted >= 0) & (found.num_accepted <= case.lengths)).all())
    assert bool(((found.next_token >= 0) & (found.next_token < case.target_probs.shape[-1])).all())


@pytest.mark.parametrize(("name", "keep"), [("token", 0), ("block", 2)])
def test_a_rejection_stops_token_but_not_block_verification(name, keep):
    # X = (A, B) on M_b = (1/3, 2/3), M_s = (2/3, 1/3): token h = 1/2, 1; block h = 0, 1.
    p = torch.tensor([[[1 / 3, 2 / 3]] * 3], dtype=torch.float64)
    q = torch.tensor([[[2 / 3, 1 / 3]] * 2], dtype=torch.float64)
    coins = Coins(torch.tensor([[0.6, 0.6]]), torch.tensor([0.5]))

    assert RULES[name](torch.tensor([[0, 1]]), q, p, coins).num_accepted.tolist() == [keep]


@pytest.mark.parametrize("name", ["token", "block", "greedy-block"])
def test_the_comparison_is_strict(name):
    q = torch.tensor([[[0.5, 0.5]]], dtype=torch.float64)
    p = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]], dtype=torch.float64)
    at = Coins(torch.tensor([[0.5]]), torch.tensor([0.0]))
    below = Coins(torch.tensor([[math.nextafter(0.5, 0)]]).double(), torch.tensor([0.0]))
    below.accept[0, 0] = math.nextafter(0.5, 0)

    assert RULES[name](torch.tensor([[0]]), q, p, at).num_accepted.tolist() == [0]
    assert RULES[name](torch.tensor([[0]]), q, p, below).num_accepted.tolist() == [1]


@pytest.mark.parametrize("name", ["token", "block", "greedy-block"])
def test_equal_laws_are_always_kept_whatever_the_coins(name):
    # Block verification meets 0/0 at every position here.
    case = inputs_from_seed(3, batch=16, gamma=4, vocabulary=5)
    coins = Coins(torch.full((16, 4), BELOW_ONE, dtype=torch.float64), case.coins.resample)
    draft = case.target_probs[:, :-1]
    tokens = draft.argmax(-1)

    found = RULES[name](tokens, draft, case.target_probs, coins)

    assert found.num_accepted.tolist() == [4] * 16


@pytest.mark.parametrize("name", ["token", "block", "greedy-block"])
@pytest.mark.parametrize(("p_token", "kept"), [(0.25, 1), (0.0, 0)])
def test_a_draft_token_its_own_law_excludes_has_a_defined_outcome(name, p_token, kept):
    q = torch.tensor([[[0.0, 1.0]]])
    p = torch.tensor([[[p_token, 1 - p_token], [0.5, 0.5]]])
    coins = Coins(torch.tensor([[0.0]]), torch.tensor([0.9]))

    found = RULES[name](torch.tensor([[0]]), q, p, coins)

    assert outcome(found) == [(kept, 1)]


def test_an_empty_residual_falls_back_to_the_target_row():
    # Rejected although both laws agree: only a dishonest law or rounding leads here.
    q = torch.tensor([[[0.0, 0.25, 0.75]]])
    p = torch.tensor([[[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]]])
    tokens = torch.tensor([[0]])

    for u, token in ((0.0, 1), (0.2, 1), (0.3, 2), (BELOW_ONE, 2)):
        coins = Coins(torch.zeros(1, 1), torch.tensor([u], dtype=torch.float64))
        assert outcome(RULES["token"](tokens, q, p, coins)) == [(0, token)]


@pytest.mark.parametrize("acceptance", [block_acceptance, greedy_block_acceptance])
def test_zero_over_zero_accepts(acceptance):
    q = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
    p = torch.tensor([[[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]])

    plan = acceptance(DraftBlock(torch.tensor([[0, 1]]), q, p, torch.tensor([2])))

    assert plan.probability.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    "acceptance", [token_acceptance, block_acceptance, greedy_block_acceptance]
)
def test_a_token_excluded_by_both_laws_never_passes_and_makes_no_nan(acceptance):
    q = torch.tensor([[[0.0, 1.0], [0.5, 0.5]]])
    p = torch.tensor([[[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]])

    plan = acceptance(DraftBlock(torch.tensor([[0, 1]]), q, p, torch.tensor([2])))

    assert plan.probability[0, 0] == 0
    assert not plan.probability.isnan().any()
    assert not plan.scale.isnan().any()


GRID_LENGTHS = {
    ("token", 1): "2/3",
    ("token", 2): "10/9",
    ("token", 3): "38/27",
    ("block", 1): "2/3",
    ("block", 2): "11/9",
    ("block", 3): "5/3",
    ("greedy-block", 2): "4/3",
    ("greedy-block", 3): "50/27",
}


@pytest.mark.parametrize(("name", "gamma"), GRID_LENGTHS)
def test_every_coin_of_a_grid_together_gives_the_exact_law(name, gamma):
    # On this toy each h is a multiple of 1/8, each CDF border one of 1/3, so a grid of
    # 8 accept coins and 3 resample coins stands for the whole unit cube, without the plan's help.
    law, mean = grid_law(RULES[name], gamma)
    plain = sequence_law(lambda prefix: (Fraction(1, 3), Fraction(2, 3)), gamma + 1)

    assert mean == Fraction(GRID_LENGTHS[name, gamma])
    if name != "greedy-block":
        assert law == plain


def grid_law(rule, gamma):
    draft, target = (Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 3), Fraction(2, 3))
    cases = [
        (block, accept, (r + 0.5) / 3)
        for block in product(range(2), repeat=gamma)
        for accept in product([k / 8 for k in range(8)], repeat=gamma)
        for r in range(3)
    ]
    B = len(cases)
    q = torch.tensor([float(x) for x in draft], dtype=torch.float64).expand(B, gamma, 2)
    p = torch.tensor([float(x) for x in target], dtype=torch.float64).expand(B, gamma + 1, 2)
    coins = Coins(
        torch.tensor([c[1] for c in cases], dtype=torch.float64),
        torch.tensor([c[2] for c in cases], dtype=torch.float64),
    )
    found = rule(torch.tensor([c[0] for c in cases]), q, p, coins)
    counts = Counter((case[0], *pair) for case, pair in zip(cases, outcome(found), strict=True))
    law, mean = Counter(), Fraction(0)
    for (block, kept, token), count in counts.items():
        weight = Fraction(count, 3 * 8**gamma) * math.prod(draft[x] for x in block)
        mean += weight * kept
        emitted = (*block[:kept], token)
        for tail in product(range(2), repeat=gamma - kept):
            law[emitted + tail] += weight * math.prod(target[x] for x in tail)
    return dict(law), mean
