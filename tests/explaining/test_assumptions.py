"""Which assumption is blamed, by exact costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdecode.explaining.assumptions import (
    AGREEMENT,
    DRAFTING,
    LOAD,
    LOSSLESS,
    VERIFICATION,
    Reading,
    assumptions_of,
)
from specdecode.explaining.costs import step_cost
from specdecode.explaining.recorded import Recorded
from tests.explaining.traces import STEP, step

RECORDED = Recorded(
    request="p/sampled/token",
    source="trace file",
    token_ids=(1, 10, 11, 99),
    text="x",
    sampling={"temperature": 1.0},
    seed=1,
    prompt_token_ids=None,
    drafting=True,
    verification="token",
    draft="self-int4",
    num_speculative_tokens=3,
    ttft_s=0.1,
    e2e_s=0.127,
    plain_tpot_s=0.020,
    steps=(STEP,),
    target=None,
    error=None,
    draft_failure=None,
)


def states(*steps, plain_s=0.020, **changes):
    recorded = replace(RECORDED, **changes)
    cost = step_cost(steps, after_first_s=None, plain_s=plain_s)
    found = assumptions_of(Reading(recorded, None, steps, cost))
    return {entry.name: entry.state for entry in found}, {e.name: e.words for e in found}


def test_the_cost_of_a_step_is_the_mean_over_steps():
    cost = step_cost((STEP, step(emitted=(99,), draft_s=0.010)), after_first_s=0.060, plain_s=0.02)

    assert cost.draft_s == pytest.approx(0.008)
    assert cost.other_s == pytest.approx((0.060 - 0.058) / 2)
    assert (cost.tokens, cost.drafted, cost.most) == (2.0, 3.0, 4.0)
    assert cost.speed_ratio == pytest.approx(0.02 * 2 / 0.030)


def test_there_is_no_cost_where_nothing_was_drafted():
    bare = step(draft_tokens=(), draft_probs=(), target_probs=(), accept_coins=(), num_accepted=0)
    assert step_cost((bare,), after_first_s=1.0, plain_s=0.1) is None
    assert step_cost((), after_first_s=1.0, plain_s=0.1) is None


def test_a_reply_that_paid_has_no_failed_assumption():
    found, words = states(STEP)

    assert {found[name] for name in (AGREEMENT, DRAFTING, VERIFICATION, LOSSLESS)} == {"held"}
    assert found[LOAD] == "unknown"
    assert "2 of 3 draft tokens kept, 3.00 tokens a step; 1.35 were needed" in words[AGREEMENT]


def rejected(**changes):
    """Nothing kept, one token a step."""
    return step(num_accepted=0, emitted=(99,), accept_coins=(0.99,) * 3, **changes)


HARD = {"draft_probs": (0.9, 0.9, 0.9), "target_probs": (0.1, 0.1, 0.1)}


@pytest.mark.parametrize(
    ("times", "plain_s", "failed"),
    [
        # 27 ms for one token against 20 ms: four tokens would have paid, free drafting would not
        ((0.006, 0.021, 0.000), 0.020, [AGREEMENT]),
        # drafting alone costs five plain passes: even a fully kept block would not have paid
        ((0.100, 0.018, 0.001), 0.020, [DRAFTING]),
        # scoring costs five plain passes
        ((0.000, 0.100, 0.000), 0.020, [VERIFICATION]),
        # nothing alone would have been enough: 0.8 of plain decoding at most, by cheap scoring
        ((0.005, 0.120, 0.000), 0.020, [VERIFICATION]),
    ],
)
def test_the_one_without_which_it_had_paid_is_blamed(times, plain_s, failed):
    draft_s, score_s, verify_s = times
    slow = rejected(draft_s=draft_s, score_s=score_s, verify_s=verify_s, **HARD)

    found, _ = states(slow, plain_s=plain_s)

    assert [name for name, state in found.items() if state == "failed"] == failed


def test_without_a_plain_reply_no_cost_is_judged():
    found, words = states(STEP, plain_s=None)

    assert [found[name] for name in (AGREEMENT, DRAFTING, VERIFICATION)] == ["unknown"] * 3
    assert "no plain reply" in words[DRAFTING]


def test_a_drafter_that_failed_is_the_first_to_blame():
    found, words = states(STEP, draft_failure="NaN in the draft")

    assert found[AGREEMENT] == "failed"
    assert "NaN in the draft" in words[AGREEMENT]


def test_a_decision_against_the_coins_is_a_sampler_that_is_not_lossless():
    found, words = states(step(accept_coins=(0.9, 0.9, 0.6)))

    assert found[LOSSLESS] == "failed"
    assert "draft token 2" in words[LOSSLESS]
