"""Watch: the released arm alone, and alarms that come rarely by mistake."""

from __future__ import annotations

import pytest

from specdecode.governance import Outcome, Status
from tests.governance.live.streams import (
    WATCH,
    entry,
    failing,
    judged,
    live_plan,
    row,
    slow,
    watch,
    with_strata,
)

PLAN = live_plan()
KEPT = ("arm", "stage", "error", "e2e_s")


def test_a_healthy_arm_may_stay_once_enough_was_seen():
    verdict = judged(PLAN, "watch", watch(300))

    assert verdict.status is Status.GO
    assert len(verdict.reasons) == 2  # what the GO rests on
    latency = entry(verdict, "e2e_s")
    assert (latency.role, latency.kind, latency.level) == ("guardrail", "e-detector", None)
    assert latency.low is latency.high is latency.decided_at is None


@pytest.mark.parametrize(("truth", "metric"), [(failing(0.3), "error_rate"), (slow(0.5), "e2e_s")])
def test_a_change_for_the_worse_raises_an_alarm_that_stays(truth, metric):
    good = watch(400)
    bad = [row(400 + index, **{k: v for k, v in each.items() if k in KEPT})
           for index, each in enumerate(watch(100, truth, 1))]  # fmt: skip
    again = [row(2000 + index, "block", "watch") for index in range(500)]
    before, after, later = (
        judged(PLAN, "watch", rows) for rows in (good, good + bad, good + bad + again)
    )

    assert before.status is Status.GO
    assert after.status is later.status is Status.NO_GO
    assert 400 < entry(after, metric).decided_at < 500
    assert entry(later, metric).decided_at == entry(after, metric).decided_at


def test_too_few_requests_and_none_are_inconclusive():
    few, none = (judged(PLAN, "watch", rows) for rows in (watch(49), []))

    assert few.status is none.status is Status.INCONCLUSIVE
    assert entry(few, "error_rate").outcome is Outcome.INSUFFICIENT
    assert "no rows yet" in none.reasons[0]


def test_a_holdback_of_the_baseline_may_be_there_and_is_not_judged():
    held = [row(5000 + i, "plain", "watch", error="down") for i in range(100)]
    verdict = judged(PLAN, "watch", watch(300) + held)

    assert verdict.status is Status.GO
    assert entry(verdict, "error_rate").n == 300


def test_rows_without_the_released_arm_are_invalid():
    verdict = judged(PLAN, "watch", [row(i, "plain", "watch") for i in range(100)])

    assert verdict.status is Status.INVALID
    assert "no rows of arm block" in verdict.reasons[0]


def test_each_stratum_has_its_alarm():
    rows = watch(600)
    broken = [each | ({"error": "tool"} if each["category"] == "tool_call" and i > 500 else {})
              for i, each in enumerate(rows)]  # fmt: skip
    plan = with_strata(stages=[*live_plan().model_dump()["stages"][:1], WATCH])
    verdict = judged(plan, "watch", broken)

    assert entry(verdict, "error_rate", "category=tool_call").outcome is Outcome.FAIL
    assert entry(verdict, "error_rate", "category=chat").outcome is Outcome.PASS


def test_a_confidence_sequence_may_watch_too():
    plan = live_plan(WATCH | {"method": "betting", "alarm_alpha": 0.01})
    good, bad = (judged(plan, "watch", watch(300, truth)) for truth in (slow(0.0), slow(0.5)))

    assert (good.status, bad.status) == (Status.GO, Status.NO_GO)
    assert entry(good, "e2e_s").low > 0.9
