"""A chosen draft length is lossless whatever it follows from, cheap when drafts are useless, and
close to the best fixed one.

Costs are in units of one plain step: drafting a token costs c, scoring a block as much as a token.
"""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.drafting.length import AdaptiveLength, DraftLength, FixedLength, best_length
from specdecode.verification.exact import blocks, joint_law, sequence_law, total_variation
from specdecode.verification.exact_rules import EXACT_RULES, modified_model, token_rule
from tests.strategies import model_from_seed

LONGEST = 16


# The law.


def controlled_law(rule, models, choose, length, modify=None):
    """Exact law of `length` tokens when `choose(history, most)` sets the length of every step."""
    target, draft = models
    law = defaultdict(Fraction)

    def decode(prefix, history, weight, in_force, until):
        if weight == 0:
            return
        if len(prefix) >= length:
            law[prefix[:length]] += weight
            return
        gamma = max(choose(history, length - len(prefix) - 1), until - len(prefix))
        if gamma == 0:  # a plain step
            for token, p in enumerate(in_force(prefix)):
                decode((*prefix, token), (*history, ((), 0, token)), weight * p, in_force, 0)
            return
        for block, q in blocks(draft, gamma, prefix):
            drafts = [draft(prefix + block[:i]) for i in range(gamma)]
            targets = [in_force(prefix + block[:i]) for i in range(gamma + 1)]
            for (tau, token), p in rule(block, drafts, targets).items():
                emitted = (*block[:tau], token)
                after, end = in_force, until
                if modify is not None:
                    after = modify(in_force, draft, gamma, prefix, emitted)
                    end = max(until, len(prefix) + gamma)
                    end = end if end > len(prefix) + len(emitted) else 0
                decode(
                    prefix + emitted, (*history, (block, tau, token)), weight * q * p, after, end
                )

    decode((), (), Fraction(1), target, 0)
    return dict(law)


def erratic(history, most):
    """Depends on everything that happened: rejected tokens, counts and the token after them."""
    mixed = sum((i + 1) * (2 * sum(b) + 3 * t + y) for i, (b, t, y) in enumerate(history))
    return min(most, (mixed + 2) % 4)


def after_rejections(history, most):
    """Drafts only as long as everything drafted was kept: the bias one would fear."""
    return min(most, 2 if all(t == len(b) for b, t, _ in history) else 0)


@pytest.mark.parametrize("choose", [erratic, after_rejections])
@pytest.mark.parametrize("rule", ["token", "block", "match", "greedy-block"])
@pytest.mark.parametrize("seed", [3, 8])
def test_a_length_that_follows_from_the_past_alone_keeps_the_law_exactly(rule, choose, seed):
    target, draft = model_from_seed(2 * seed, 2), model_from_seed(2 * seed + 1, 2)
    modify = cached_modification if rule == "greedy-block" else None

    law = controlled_law(EXACT_RULES[rule], (target, draft), choose, 4, modify)

    assert total_variation(law, sequence_law(target, 4)) == 0


def cached_modification(*arguments):
    return cache(modified_model(*arguments))


def test_the_oracle_sees_greedy_block_verification_without_its_modified_target():
    target, draft = model_from_seed(16, 2), model_from_seed(17, 2)

    law = controlled_law(EXACT_RULES["greedy-block"], (target, draft), erratic, 4)

    assert total_variation(law, sequence_law(target, 4)) > 0


def test_dropping_a_token_after_it_was_drawn_biases_the_output():
    """What the argument excludes: each kept token is verified correctly, and still d_TV = 0.12."""
    p = (Fraction(5, 10), Fraction(3, 10), Fraction(2, 10))
    q = (Fraction(3, 10), Fraction(3, 10), Fraction(4, 10))

    def dropping(block, draft_rows, target_rows):
        if draft_rows[0][block[0]] < Fraction(35, 100):
            return token_rule((), (), target_rows[:1])
        return token_rule(block, draft_rows, target_rows)

    law = joint_law(dropping, lambda _: p, lambda _: q, 1, length=1)

    assert total_variation(law, {(x,): mass for x, mass in enumerate(p)}) == Fraction(12, 100)


# The choice.


def expected_speed(acceptance, gamma, costs):
    return sum(acceptance**i for i in range(gamma + 1)) / costs[gamma]


@settings(deadline=None)
@given(
    acceptance=st.floats(0, 1),
    costs=st.lists(st.floats(0.1, 10), min_size=1, max_size=17),
)
def test_the_best_length_has_the_most_expected_tokens_per_second(acceptance, costs):
    best = best_length(acceptance, costs)

    speeds = [expected_speed(acceptance, g, costs) for g in range(len(costs))]
    assert speeds[best] == pytest.approx(max(speeds))


@pytest.mark.parametrize(
    ("acceptance", "ratio", "best"),
    [(0.0, 0.1, 0), (0.3, 0.3, 0), (0.5, 0.3, 1), (0.7, 0.3, 2), (0.8, 0.1, 6), (1.0, 0.5, 16)],
)
def test_best_lengths_by_hand(acceptance, ratio, best):
    """(1 + α + … + α^γ) / (1 + c γ), worked out for γ = 0..16; ties go to the shorter draft."""
    assert best_length(acceptance, [1 + ratio * g for g in range(17)]) == best


@given(most=st.integers(0, 40), kept=st.lists(st.integers(0, 16), max_size=20))
def test_no_more_is_drafted_than_the_reply_can_take(most, kept):
    length = AdaptiveLength()
    costs = [1 + 0.05 * g for g in range(LONGEST + 1)]
    for k in kept:
        length.observe(LONGEST, k)

    assert 0 <= length.choose(costs, most) <= min(most, LONGEST)
    assert FixedLength(5).choose((), most) == min(5, most)


def test_a_step_counts_its_kept_tokens_and_at_most_one_failure():
    """Prior 0.7 of 1; then 3 kept and one lost: (0.7 + 3) / (1 + 4). The second step fades it."""
    length = AdaptiveLength()
    assert length.acceptance == pytest.approx(0.7)

    length.observe(5, 3)
    assert length.acceptance == pytest.approx(3.7 / 5)

    length.observe(2, 2)
    assert length.acceptance == pytest.approx((0.7 + 2.7 + 2) / (1 + 2.7 + 0.9 + 2))


def test_plain_steps_say_nothing_but_age_what_is_known():
    length = AdaptiveLength()
    length.observe(4, 1)
    before = length.acceptance
    for _ in range(2):
        length.observe(0, 0)

    assert length.acceptance == before
    length.observe(1, 1)
    assert length.acceptance == pytest.approx((0.7 + 0.9**3 + 1) / (1 + 2 * 0.9**3 + 1))


# What it costs.


def decode_cost(
    length: DraftLength, acceptance, tokens: int, ratio: float, seed: int = 0
) -> tuple[float, list[int]]:
    """Cost of a reply, and the lengths chosen. `acceptance` is a number or a function of place."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    costs = [1 + ratio * g for g in range(LONGEST + 1)]
    done, cost, chosen = 1, 0.0, []
    while done < tokens:
        gamma = length.choose(costs, tokens - done - 1)
        alpha = acceptance(done) if callable(acceptance) else acceptance
        kept = 0
        while kept < gamma and rng.random() < alpha:
            kept += 1
        length.observe(gamma, kept)
        done += kept + 1
        cost += costs[gamma]
        chosen.append(gamma)
    return cost, chosen


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.2, 0.3, 0.4, 0.5])
def test_a_useless_draft_costs_at_most_a_tenth(ratio):
    for tokens in range(64, 600):
        cost, _ = decode_cost(AdaptiveLength(), 0.0, tokens, ratio)

        assert cost <= 1.10 * (tokens - 1), tokens


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_within_five_percent_of_the_best_fixed_length(acceptance, ratio):
    def mean(make):
        return sum(decode_cost(make(), acceptance, 256, ratio, s)[0] for s in range(80)) / 80

    best = min(mean(lambda g=g: FixedLength(g)) for g in range(LONGEST + 1))

    assert mean(AdaptiveLength) <= 1.05 * best


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.3, 0.5])
def test_a_perfect_draft_reaches_the_longest_length(ratio):
    _, chosen = decode_cost(AdaptiveLength(), 1.0, 512, ratio)

    assert LONGEST in chosen[:12]
    assert set(chosen[chosen.index(LONGEST) : -2]) == {LONGEST}


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5])
def test_a_useless_draft_is_tried_after_growing_pauses(ratio):
    _, chosen = decode_cost(AdaptiveLength(), 0.0, 1000, ratio)
    tried = [step for step, gamma in enumerate(chosen) if gamma]
    pauses = [b - a - 1 for a, b in pairwise(tried)]

    grown = [pause for pause in pauses if pause]
    assert grown == [1, 2, 4, 8, 16, 32, *[64] * (len(grown) - 6)]
    assert len(grown) > 10
    first = pauses.index(1)
    assert all(chosen[step] == 1 for step in tried[first + 1 :])
    # After a pause old failures are almost forgotten, so a cheap draft fails a few times in a row.
    assert ratio * sum(chosen[-500:]) <= 0.02 * 500


def test_an_accurate_draft_that_is_too_dear_is_tried_ever_less():
    """Acceptance shows that it is accurate, not that it pays."""
    _, chosen = decode_cost(AdaptiveLength(), 0.95, 1000, 1.5)

    assert sum(chosen) < 6 + 1000 / 64 + 5


@pytest.mark.parametrize("ratio", [0.1, 0.3])
def test_a_draft_that_becomes_good_is_used_again(ratio):
    _, chosen = decode_cost(AdaptiveLength(), lambda n: 0.0 if n < 300 else 1.0, 800, ratio)

    assert max(chosen[150:290]) <= 1
    assert LONGEST in chosen


@pytest.mark.parametrize("ratio", [0.1, 0.3])
def test_a_draft_that_becomes_useless_is_given_up(ratio):
    cost, chosen = decode_cost(AdaptiveLength(), lambda n: 1.0 if n < 300 else 0.0, 800, ratio)

    assert LONGEST in chosen
    assert ratio * sum(chosen[-200:]) <= 0.02 * 200
    # Not giving up would cost 1 + 16 c for each of the last 500 tokens.
    assert cost < 300 / 17 * (1 + 16 * ratio) + 500 + 75 * (1 + ratio)


def test_a_drafter_that_finds_nothing_is_asked_again_at_once():
    """An empty proposal is no failed one, and costs nothing."""
    length = AdaptiveLength()
    costs = [1 + 0.3 * g for g in range(17)]
    for _ in range(30):
        length.observe(length.choose(costs, 99), 0)
    while length.choose(costs, 99) == 0:
        length.observe(0, 0)

    for _ in range(5):
        assert length.choose(costs, 99) == 1
        length.observe(0, 0)
