"""Canary: two arms on different requests, step by step, and their shares of the traffic."""

from __future__ import annotations

import pytest

from specdecode.governance import Outcome, Status
from tests.governance.live.streams import (
    CANARY,
    ERRORS,
    LATENCY,
    QUALITY,
    canary,
    entry,
    failing,
    healthy,
    judged,
    live_plan,
    row,
    scored,
    slow,
)

PLAN = live_plan()
STEP = "step=0.5"


def test_a_good_candidate_is_go_at_the_steps_that_have_rows():
    rows = canary(1600)
    verdict = judged(PLAN, "canary", rows)

    assert verdict.status is Status.GO
    quality = entry(verdict, "quality", STEP)
    assert quality.n == min(sum(e["arm"] == arm for e in rows) for arm in ("plain", "block"))
    assert 50 <= quality.decided_at <= quality.n
    assert [e.stratum for e in verdict.rules if e.name == "e2e_s"] == [STEP]


@pytest.mark.parametrize(
    ("truth", "metric"),
    [(failing(0.3), "error_rate"), (slow(0.5), "e2e_s"), (scored(0.1), "quality")],
)
def test_harm_stops_it(truth, metric):
    verdict = judged(PLAN, "canary", canary(600, truth))

    assert verdict.status is Status.NO_GO
    assert entry(verdict, metric, STEP).outcome is Outcome.FAIL
    assert entry(verdict, metric, STEP).decided_at < 150


def test_what_is_said_of_a_look_is_what_was_said_then():
    rows = canary(600, scored(0.1))
    looks = [judged(PLAN, "canary", rows[:n]) for n in range(50, 601, 50)]
    found = [entry(look, "quality", STEP) for look in looks]
    failed = [each.outcome is Outcome.FAIL for each in found]

    assert failed == sorted(failed)
    assert {True, False} == set(failed)
    assert len({each.decided_at for each in found if each.outcome is Outcome.FAIL}) == 1


def test_each_step_is_judged_by_its_own_rows():
    good = canary(500, share=0.2) + canary(600, share=0.5, first=500, seed=1)
    bad = canary(500, share=0.2) + canary(600, failing(0.3), share=0.5, first=500, seed=1)
    few = canary(500, share=0.2) + canary(40, share=0.5, first=500, seed=1)
    verdicts = {name: judged(PLAN, "canary", rows) for name, rows in
                {"good": good, "bad": bad, "few": few}.items()}  # fmt: skip

    assert [e.stratum for e in verdicts["good"].rules if e.name == "quality"] == [
        "step=0.2", "step=0.5"
    ]  # fmt: skip
    assert entry(verdicts["bad"], "error_rate", "step=0.2").outcome is Outcome.PASS
    assert entry(verdicts["bad"], "error_rate", "step=0.5").outcome is Outcome.FAIL
    assert entry(verdicts["few"], "error_rate", "step=0.5").outcome is Outcome.INSUFFICIENT
    assert verdicts["bad"].status is Status.NO_GO
    assert verdicts["few"].status is Status.INCONCLUSIVE


def test_a_day_that_is_worse_for_everyone_is_no_harm_though_shares_changed_with_it():
    worse = scored(0.2)
    rows = canary(500, share=0.2) + canary(700, worse, worse, share=0.5, first=500, seed=3)

    assert judged(PLAN, "canary", rows).status is not Status.NO_GO


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_share_that_is_not_the_declared_one_is_invalid(share):
    verdict = judged(PLAN, "canary", canary(800, share=share, step=0.5))

    assert verdict.status is Status.INVALID
    assert "sample_ratio" in verdict.reasons[0]
    assert "in step 0.5 block got" in verdict.reasons[0]


def of_one_arm(n, arm, step):
    return [row(i, arm, "canary", profile=f"{step:g}") for i in range(n)]


@pytest.mark.parametrize(
    ("arm", "step", "chance", "certain"),
    [("plain", 0.05, 200, 300), ("plain", 0.5, 45, 60), ("block", 0.05, 5, 20)],
)
def test_an_arm_without_rows_is_awaited_until_its_share_makes_that_improbable(
    arm, step, chance, certain
):
    plan = live_plan(CANARY | {"steps": [0.05, 0.5], "rules": ["block-lossless"]})
    early, late = (judged(plan, "canary", of_one_arm(n, arm, step)) for n in (chance, certain))

    assert early.status is Status.INCONCLUSIVE
    awaited = entry(early, "integrity/arms")
    assert (awaited.outcome, awaited.n) == (Outcome.INSUFFICIENT, chance)
    assert awaited.remedy == "let canary go on until it has rows"
    assert entry(early, "block-lossless").outcome is Outcome.NOT_EVALUATED
    assert late.status is Status.INVALID
    assert entry(late, "integrity/sample_ratio").outcome is Outcome.INVALID


def test_harm_is_seen_though_the_other_arm_has_no_rows_yet():
    failed = [each | {"error": "planted"} for each in of_one_arm(12, "block", 0.5)]

    assert judged(PLAN, "canary", failed).status is Status.NO_GO


def test_an_arm_that_the_plan_does_not_have_is_wrong_at_once_whatever_is_awaited():
    rows = [*of_one_arm(3, "plain", 0.5), row(3, "other", "canary", profile="0.5")]
    verdict = judged(PLAN, "canary", rows)

    assert entry(verdict, "integrity/arms").outcome is Outcome.INVALID


def test_numbers_that_one_arm_loses_more_often_are_invalid_though_shares_hold():
    rows = [
        each | ({"e2e_s": None} if each["arm"] == "block" and index % 3 == 0 else {})
        for index, each in enumerate(canary(2500))
    ]
    plan = live_plan(
        CANARY | {"n_max": 5000}, missing_data={"max_missing_share": 0.4}
    )  # which would let them pass
    verdict = judged(plan, "canary", rows)

    assert verdict.status is Status.INVALID
    assert "units with numbers" in verdict.reasons[0]


def test_failures_that_were_recorded_are_no_lost_numbers():
    verdict = judged(PLAN, "canary", canary(1500, failing(0.4)))

    assert verdict.status is Status.NO_GO
    assert entry(verdict, "integrity/sample_ratio").outcome is Outcome.PASS


@pytest.mark.parametrize("profile", [None, "full", "0.3"])
def test_a_profile_that_is_no_step_is_invalid(profile):
    verdict = judged(PLAN, "canary", [e | {"profile": profile} for e in canary(100)])

    assert verdict.status is Status.INVALID
    assert "no step of the canary" in verdict.reasons[0]


def test_a_step_may_be_spelled_with_more_digits():
    rows = [each | {"profile": "0.50"} for each in canary(1600)]

    assert judged(PLAN, "canary", rows).status is Status.GO


def test_requests_of_the_baseline_after_the_candidates_last_do_not_count():
    late = [row(9000 + i, "plain", "canary", profile="0.5", quality=0.0) for i in range(300)]
    verdict = judged(live_plan(CANARY | {"n_max": 200}), "canary", canary(800))
    more = judged(live_plan(CANARY | {"n_max": 200}), "canary", canary(800) + late[:20])

    assert entry(more, "quality", STEP).estimate == entry(verdict, "quality", STEP).estimate
    assert entry(more, "quality", STEP).n <= 200
    assert "came after n_max" in entry(more, "error_rate", STEP).reason


def test_what_was_decided_at_n_max_is_not_undone_by_the_next_request():
    """Bad scores of the baseline came before it and spoke for the candidate, until it came."""
    plan, rows = live_plan(CANARY | {"n_max": 100}), canary(1400, share=0.2)
    last = [i for i, each in enumerate(rows) if each["arm"] == "block"][99]
    late = [row(5000 + i, "plain", "canary", profile="0.2", quality=0.0) for i in range(100)]
    following = row(6000, "block", "canary", profile="0.2")
    before = judged(plan, "canary", rows[: last + 1] + late)
    after = judged(plan, "canary", [*rows[: last + 1], *late, following])

    assert before.status is after.status
    assert entry(before, "quality", "step=0.2").low == entry(after, "quality", "step=0.2").low


def test_below_n_min_in_either_arm_nothing_is_shown():
    verdict = judged(PLAN, "canary", canary(200, share=0.2))
    candidate = sum(each["arm"] == "block" for each in canary(200, share=0.2))

    assert candidate < 50
    assert verdict.status is Status.INCONCLUSIVE
    assert entry(verdict, "quality", "step=0.2").n == candidate
    assert entry(verdict, "quality", "step=0.2").outcome is Outcome.INSUFFICIENT


def test_conversations_that_stay_with_their_arm_are_counted_once():
    talks = []
    for each in canary(400):
        talk = int(each["prompt_id"][1:])
        talks += [
            each | {"prompt_id": f"c{talk}/{turn}", "request_id": f"c{talk}/{turn}/{each['arm']}"}
            for turn in range(12)
        ]
    talks += [row(9000, arm, "canary", profile="0.5") for arm in ("plain", "block")]  # hours later
    by_request = judged(PLAN, "canary", talks)
    by_talk = judged(live_plan(CANARY | {"unit": "conversation"}), "canary", talks)

    # Twelve requests of one assignment look like twelve assignments: the unit has to be named.
    assert entry(by_request, "integrity/sample_ratio").outcome is Outcome.INVALID
    assert entry(by_talk, "integrity/sample_ratio").outcome is Outcome.PASS
    arms = [each["arm"] for each in canary(400)]
    assert entry(by_talk, "error_rate", STEP).n == arms.count("block")
    assert entry(by_talk, "quality", STEP).n == min(map(arms.count, ("plain", "block")))


def test_rates_of_requests_are_judged_by_the_mixture_and_the_rest_by_bets():
    plan = live_plan(CANARY | {"method": "beta-binomial"})
    verdict = judged(plan, "canary", canary(1600))

    kinds = {name: entry(verdict, name, STEP).kind for name in CANARY["metrics"]}
    assert kinds == {"error_rate": "beta-binomial", "e2e_s": "beta-binomial", "quality": "betting"}
    assert verdict.status is Status.GO


@pytest.mark.parametrize("method", ["beta-binomial", "empirical-bernstein", "betting"])
def test_a_difference_of_error_rates_is_judged_by_every_method(method):
    metrics = [ERRORS | {"transform": "difference", "margin": 0.1, "role": "primary"},
               LATENCY, QUALITY]  # fmt: skip
    plan = live_plan(CANARY | {"method": method}, metrics=metrics)
    good, bad = (judged(plan, "canary", canary(900, truth)) for truth in (healthy, failing(0.6)))

    assert entry(good, "error_rate", STEP).outcome in (Outcome.PASS, Outcome.UNDECIDED)
    assert entry(good, "error_rate", STEP).high < 0.2
    assert entry(bad, "error_rate", STEP).outcome is Outcome.FAIL
