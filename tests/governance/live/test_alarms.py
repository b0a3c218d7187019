"""How a stage's alarms share its chance of a false one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from specdecode.errors import ConfigError
from specdecode.governance import Status
from specdecode.governance.live.alarms import SAMPLE_RATIO, alarms
from tests.governance.live.streams import (
    CANARY,
    ERRORS,
    LATENCY,
    QUALITY,
    SHADOW,
    WATCH,
    entry,
    judged,
    live_plan,
    shadow,
    with_strata,
)


def ledger(plan, name):
    return alarms(plan, next(stage for stage in plan.stages if stage.name == name))


def test_one_guardrail_has_all_of_it():
    assert dict(ledger(live_plan(), "shadow").levels) == {"error_rate": Fraction(1, 20)}


def test_of_a_canary_each_step_has_its_alarm_and_the_sample_ratio_one():
    assert list(ledger(live_plan(), "canary").levels) == [
        "error_rate (step=0.2)",
        "error_rate (step=0.5)",
        SAMPLE_RATIO,
    ]


def test_each_stratum_has_its_own_and_together_they_spend_no_more():
    found = ledger(with_strata(), "canary")

    assert len(found.levels) == 2 * 3 + 1
    assert "error_rate (step=0.5, category=tool_call)" in found.levels
    assert found.spent == found.total == Fraction(1, 20)


def test_in_watch_what_was_to_be_shown_is_an_alarm():
    assert list(ledger(live_plan(), "watch").levels) == ["error_rate", "e2e_s"]


def test_the_level_of_an_entry_is_that_of_its_alarm_or_the_whole_alpha():
    verdict = judged(with_strata(stages=[live_plan().stages[0].model_dump(), SHADOW]), "shadow",
                     shadow(120))  # fmt: skip

    assert entry(verdict, "error_rate").level == pytest.approx(1 - 2 * 0.05 / 3)
    assert entry(verdict, "quality").level == pytest.approx(1 - 2 * 0.05)


def test_a_stage_with_no_alarms_spends_none():
    plan = live_plan(SHADOW | {"metrics": ["e2e_s", "quality"]})

    assert judged(plan, "shadow", shadow(400)).status is Status.GO


@pytest.mark.parametrize("stage", [SHADOW, CANARY, WATCH])
def test_a_stage_without_alarm_alpha_gives_no_view(stage):
    plan = live_plan(stage | {"alarm_alpha": None})

    with pytest.raises(ConfigError, match="it needs an alarm_alpha"):
        plan.at(stage["name"])
    with pytest.raises(ConfigError, match="has no alarm_alpha"):
        ledger(plan, stage["name"])


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ([ERRORS, LATENCY, QUALITY | {"transform": "ratio"}], "quality is a ratio.*indicator"),
        ([ERRORS, LATENCY, QUALITY | {"bounds": {"low": 0, "high": None}}], "give low and high"),
        ([ERRORS, LATENCY | {"direction": "lower"}, QUALITY], "within the limit are better"),
        ([ERRORS | {"margin": 1.5}, LATENCY, QUALITY], "outside what its bounds allow"),
    ],
)
def test_a_metric_that_cannot_be_judged_is_refused_with_what_to_do(metrics, told):
    with pytest.raises(ConfigError, match=told):
        live_plan(SHADOW, metrics=metrics).at("shadow")
