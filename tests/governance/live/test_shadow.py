"""Shadow: the same request by both arms, judged in pairs and at every look."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.governance import Outcome, Status
from tests.governance.live.streams import (
    ERRORS,
    SHADOW,
    entry,
    failing,
    healthy,
    judged,
    live_plan,
    row,
    scored,
    shadow,
    slow,
    with_strata,
)

PLAN = live_plan()
GOOD = shadow(400)


def test_a_good_candidate_is_go_and_says_after_how_many_requests_each_metric_was_shown():
    verdict = judged(PLAN, "shadow", GOOD)

    assert verdict.status is Status.GO
    shown = entry(verdict, "e2e_s")
    assert (shown.outcome, shown.n, shown.kind, shown.level) == (Outcome.PASS, 400, "betting", 0.9)
    assert 50 <= shown.decided_at <= 400
    assert entry(verdict, "quality").decided_at >= 50
    assert entry(verdict, "error_rate").decided_at is None  # harm may still come
    assert entry(verdict, "integrity/missing").decided_at is None
    assert verdict.plan_sha256 == judged(PLAN, "shadow", GOOD[:20]).plan_sha256


@pytest.mark.parametrize(
    ("truth", "metric"),
    [
        (failing(0.3), "error_rate"),
        (slow(0.5), "e2e_s"),
        (scored(0.1), "quality"),
    ],
)
def test_harm_stops_the_stage_long_before_its_end(truth, metric):
    verdict = judged(PLAN, "shadow", shadow(400, truth))

    assert verdict.status is Status.NO_GO
    assert entry(verdict, metric).outcome is Outcome.FAIL
    assert entry(verdict, metric).decided_at < 200
    assert any(metric in reason for reason in verdict.reasons)


def test_a_failed_request_is_a_failure_and_too_late_and_nowhere_dropped_unseen():
    rows = shadow(60) + [row(60 + i, arm, "shadow", **({"error": "x"} if arm == "block" else {}))
                         for i in range(2) for arm in ("plain", "block")]  # fmt: skip
    verdict = judged(PLAN, "shadow", rows)

    assert entry(verdict, "error_rate").estimate == pytest.approx(2 / 62)
    latency = entry(verdict, "e2e_s")
    assert latency.n == 62
    assert "2 failed and count as outside the limit" in latency.reason
    quality = entry(verdict, "quality")
    assert quality.n == 60
    assert "2 failed and have no value here" in quality.reason


@pytest.mark.parametrize("arm", ["plain", "block"])
def test_an_arm_without_rows_is_awaited_below_n_min_and_wrong_from_there_on(arm):
    rows = [each for each in shadow(50) if each["arm"] == arm]
    early, late = (entry(judged(PLAN, "shadow", own), "integrity/arms") for own in (rows[1:], rows))

    assert (early.outcome, early.n) == (Outcome.INSUFFICIENT, 49)
    assert late.outcome is Outcome.INVALID
    assert judged(PLAN, "shadow", rows[1:]).status is Status.INCONCLUSIVE


@pytest.mark.parametrize("order", [1, -1])
def test_a_failure_whose_prompt_nobody_learned_is_harm_and_no_other_input(order):
    rows = [each | {"prompt_token_ids": None if each["error"] else [1, 2]}
            for each in shadow(200, failing(0.3))]  # fmt: skip
    verdict = judged(PLAN, "shadow", rows[::order])
    works = next(i for i in range(0, len(rows), 2) if rows[i + 1]["error"] is None)
    unknown = [r | ({"prompt_token_ids": None} if i == works else {}) for i, r in enumerate(rows)]

    assert entry(verdict, "integrity/same_inputs").outcome is Outcome.PASS
    assert verdict.status is Status.NO_GO
    assert judged(PLAN, "shadow", unknown[::order]).status is Status.INVALID


def test_a_fail_at_some_look_is_a_fail_at_every_later_one():
    rows = shadow(150, failing(0.3)) + [
        row(index, arm, "shadow") for index in range(150, 400) for arm in ("plain", "block")
    ]
    looks = [judged(PLAN, "shadow", rows[: 2 * n]) for n in range(5, 400, 15)]
    failed = [entry(look, "error_rate").outcome is Outcome.FAIL for look in looks]
    moments = {entry(look, "error_rate").decided_at for look in looks} - {None}

    assert True in failed
    assert False in failed
    assert failed == sorted(failed)
    assert len(moments) == 1
    assert entry(looks[-1], "error_rate").estimate < 0.15  # the average alone forgets


def test_a_pass_once_shown_stays_and_its_moment_too():
    looks = [judged(PLAN, "shadow", GOOD[: 2 * n]) for n in range(40, 401, 40)]
    shown = [entry(look, "quality") for look in looks]
    passed = [each.outcome is Outcome.PASS for each in shown]

    assert passed == sorted(passed)
    assert len({each.decided_at for each in shown} - {None}) == 1
    lows, highs = [e.low for e in shown], [e.high for e in shown]
    assert lows == sorted(lows)
    assert highs == sorted(highs, reverse=True)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_changes_no_byte(seed):
    rows = GOOD[:120]
    order = np.random.default_rng(seed).permutation(len(rows))
    again = judged(PLAN, "shadow", [rows[place] for place in order])

    assert again.to_bytes() == judged(PLAN, "shadow", rows).to_bytes()


def test_rows_that_began_at_the_same_moment_are_told_apart_by_their_names():
    rows = [each | {"started_at": GOOD[0]["started_at"]} for each in GOOD[:200]]

    assert judged(PLAN, "shadow", rows).to_bytes() == judged(PLAN, "shadow", rows[::-1]).to_bytes()
    assert entry(judged(PLAN, "shadow", rows), "error_rate").n == 100


def test_below_n_min_guardrails_hold_and_primaries_are_not_shown():
    verdict = judged(PLAN, "shadow", shadow(49))

    assert verdict.status is Status.INCONCLUSIVE
    assert {entry(verdict, name).outcome for name in SHADOW["metrics"]} == {Outcome.INSUFFICIENT}
    assert all("50 requests are needed" in entry(verdict, n).reason for n in SHADOW["metrics"])


def test_requests_beyond_n_max_do_not_count_and_are_reported():
    late = [row(index, arm, "shadow", **({"error": "late"} if arm == "block" else {}))
            for index in range(400, 600) for arm in ("plain", "block")]  # fmt: skip
    verdict = judged(PLAN, "shadow", GOOD + late)

    assert verdict.status is Status.GO
    errors = entry(verdict, "error_rate")
    assert (errors.n, errors.estimate) == (400, 0.0)
    assert "200 came after n_max or the window" in errors.reason


def test_requests_after_the_window_do_not_count_and_the_budget_is_spent():
    plan = live_plan(SHADOW | {"window": {"length": 2, "per": "minutes"}})
    verdict = judged(plan, "shadow", shadow(300, scored(0.5)))

    assert entry(verdict, "error_rate").n == 121  # one a second, both ends
    assert "179 came after" in entry(verdict, "error_rate").reason
    assert "budget spent" in entry(verdict, "quality").reason


def test_an_undecided_primary_goes_on_until_its_budget_is_spent():
    going, spent = (judged(PLAN, "shadow", shadow(n, scored(0.5))) for n in (100, 400))

    assert going.status is spent.status is Status.INCONCLUSIVE
    assert "goes on after 100 of 400 requests" in entry(going, "quality").reason
    assert "budget spent after 400 of 400 requests" in entry(spent, "quality").reason
    assert "go on" in going.to_change[0]
    assert "stay with the baseline" in spent.to_change[0]


def test_no_rows_is_inconclusive_and_never_go():
    verdict = judged(PLAN, "shadow", [])

    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reasons[0] == "integrity/rows_present: shadow has no rows yet"
    assert {entry(verdict, name).outcome for name in SHADOW["metrics"]} == {Outcome.NOT_EVALUATED}


@pytest.mark.parametrize("arm", ["plain", "block"])
def test_rows_of_one_arm_only_are_invalid(arm):
    verdict = judged(PLAN, "shadow", [each for each in GOOD if each["arm"] == arm])

    assert verdict.status is Status.INVALID
    assert any("no rows of arm" in reason for reason in verdict.reasons)


def _changed(rows, index, **fields):
    return [each | fields if place == index else each for place, each in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        (_changed(GOOD, 3, stage="canary"), "rows of stage canary"),
        (_changed(GOOD, 3, manifest_sha256="b" * 64), "2 different manifests"),
        (_changed(GOOD, 3, arm="other", prompt_id="x"), "rows of arm other"),
        (_changed(GOOD, 3, request_id=GOOD[0]["request_id"]), "rows occur twice"),
        (_changed(GOOD, 3, category="poem"), "different prompts, settings or labels"),
        (_changed(GOOD, 3, started_at=None), "rows have no started_at"),
        (_changed(GOOD, 3, accepted=99), "numbers contradict each other"),
        (_changed(GOOD, 3, sampling={"name": "warm"}), "rows of sampling setting warm"),
        (_changed(GOOD, 3, sampling={"name": "sampled", "temperature": 0}), "measured greedily"),
        ([e for e in GOOD if e["arm"] == "plain" or int(e["prompt_id"][1:]) % 10], "40 of 400"),
        (shadow(400, baseline=failing(0.2)), "requests of the baseline failed"),
        ([e | {"e2e_s": None} if e["arm"] == "block" else e for e in GOOD], "400 of 400 requests"),
        ([e | {"drafted": 0} if e["arm"] == "block" else e for e in GOOD], "never drafted"),
        ([e | {"quality": 1.0, "target_tokens": 90} for e in GOOD], "outside the bounds"),
    ],
)
def test_rows_that_are_no_evidence_are_invalid(rows, cause):
    plan = live_plan(SHADOW | {"metrics": [*SHADOW["metrics"], "target_tokens_per_output_token"]})
    verdict = judged(plan, "shadow", rows)

    assert verdict.status is Status.INVALID
    assert any(cause in reason for reason in verdict.reasons)


def test_a_setting_no_user_asked_for_is_no_gap():
    assert {each["sampling"]["name"] for each in GOOD} == {"sampled"}
    assert PLAN.sampling == ["greedy", "sampled"]
    assert judged(PLAN, "shadow", GOOD).status is Status.GO


def test_a_gap_among_a_few_requests_holds_and_does_not_condemn():
    rows = [each for each in shadow(10) if each["request_id"] != "r00003/sampled/block"]
    verdict = judged(PLAN, "shadow", rows)

    assert verdict.status is Status.INCONCLUSIVE
    assert entry(verdict, "integrity/missing").outcome is Outcome.INSUFFICIENT


def test_harm_to_one_stratum_is_caught_where_the_average_hides_it():
    def only_tools(rng, index):
        broken = index % 2 and rng.random() < 0.06
        return healthy(rng, index) | ({"error": "tool call"} if broken else {})

    plan = with_strata(
        stages=[live_plan().stages[0].model_dump(),
                SHADOW | {"metrics": ["error_rate"], "n_max": 5000}],
        metrics=[ERRORS | {"margin": 0.04}],
    )  # fmt: skip
    verdict = judged(plan, "shadow", shadow(3000, only_tools))

    assert verdict.status is Status.NO_GO
    assert entry(verdict, "error_rate").outcome is Outcome.PASS
    assert entry(verdict, "error_rate", "category=chat").outcome is Outcome.PASS
    assert entry(verdict, "error_rate", "category=tool_call").outcome is Outcome.FAIL


def test_a_thin_stratum_is_reported_and_does_not_hold():
    rows = [each | {"category": "chat"} for each in GOOD]
    verdict = judged(with_strata(), "shadow", rows)

    thin = entry(verdict, "error_rate", "category=tool_call")
    assert (thin.outcome, thin.counts, thin.n) == (Outcome.INSUFFICIENT, False, 0)
    assert verdict.status is Status.GO
