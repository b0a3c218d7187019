"""Every kind of rule has been made to fail, alone, beside rows on which it passes."""

from __future__ import annotations

import math

import pytest

from specdecode.governance import Outcome, Status, decide
from specdecode.governance.rules.base import IntervalRule
from specdecode.measurement.records import to_table
from tests.governance.faults.rules import CLASSES, FAULTS, GOOD, KINDS, RULES, Measured, plan
from tests.governance.plans import small_plan
from tests.measurement.factories import audit

IDS = [f"{fault.rule}: {fault.planted}" for fault in FAULTS]
INTERVALS = sorted(kind for kind, cls in KINDS.items() if issubclass(cls, IntervalRule))
PRIMARY = [kind for kind in INTERVALS if kind not in ("strata", "tail_latency")]
AT_MOST = ("tail_latency", "token_amplification")


def entries(verdict, rule):
    return [entry for entry in verdict.rules if entry.name == rule]


def not_passed(verdict):
    return {entry.name for entry in verdict.rules if entry.outcome is not Outcome.PASS}


def test_every_kind_of_rule_has_a_planted_fault():
    kinds = {rule.name: rule.kind for rule in plan().rules}

    assert {kinds[fault.rule] for fault in FAULTS} == set(KINDS)
    assert {kinds[fault.rule] for fault in FAULTS if fault.answer is Status.NO_GO} == set(KINDS)
    assert {rule.kind for rule in plan().rules} == set(KINDS)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_only_the_rule_meant_fails_and_beside_it_none_does(fault):
    faulty, passing = fault.fault.verdict(), fault.neighbour.verdict()

    assert faulty.status is fault.answer
    assert not_passed(faulty) == {fault.rule}
    assert faulty.reasons
    assert all(reason.startswith(fault.rule) for reason in faulty.reasons)
    assert faulty.to_change
    assert (passing.status, not_passed(passing)) == (Status.GO, set())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "losslessness"])
def test_a_rule_that_waits_for_more_data_holds_the_decision(kind):
    verdict = GOOD.verdict(plan(**{kind: RULES[kind] | {"n_min": 49}}))

    assert verdict.status is Status.INCONCLUSIVE
    assert not_passed(verdict) == {kind}
    assert {e.outcome for e in entries(verdict, kind)} == {Outcome.INSUFFICIENT}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_that_crashes_or_says_nothing_is_invalid(monkeypatch, kind):
    def crash(_self, _evidence):
        raise KeyError("boom")

    for answer, reason in ((crash, "KeyError: 'boom'"), (lambda *_: [], "the check said nothing")):
        monkeypatch.setattr(KINDS[kind], "evaluate", answer)
        verdict = GOOD.verdict()
        assert verdict.status is Status.INVALID
        assert {entry.kind for entry in verdict.rules if entry.outcome is Outcome.INVALID} == {kind}
        assert reason in verdict.reasons[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_is_not_asked_about_rows_that_are_no_evidence(monkeypatch, kind):
    asked = []
    monkeypatch.setattr(KINDS[kind], "evaluate", lambda *_: asked.append(kind) or [])
    rows = GOOD.records()
    verdict = decide(plan(), to_table([*rows, rows[0]]), audit([*rows, rows[0]]))

    assert verdict.status is Status.INVALID
    assert asked == []


def moved(kind, threshold, **changes):
    """The rule's outcome on good rows under another threshold."""
    field = {"quality_non_inferiority": "margin"}.get(kind, "threshold")
    value = -threshold if field == "margin" else threshold
    rule = RULES[kind] | changes | {field: value}
    if kind == "strata":
        rule |= {"strata": {"difficulty": ["normal"]}}
    (entry,) = entries(ROWS.verdict(small_plan(rule)), kind)
    return entry


ROWS = Measured({"change": lambda f: f | (
    {"quality": 0.0} if f["arm"] == "block" and f["quality"] is not None else {})})  # fmt: skip
"""Every rule's interval has a width, and that of quality lies where a margin can be."""


@pytest.mark.parametrize("kind", INTERVALS)
def test_a_guardrail_alarms_just_beyond_the_far_end_of_the_interval_and_not_at_it(kind):
    now = moved(kind, {"quality_non_inferiority": -0.9}.get(kind, 1.0))
    end, beyond = (now.low, -math.inf) if kind in AT_MOST else (now.high, math.inf)

    assert now.low < now.high
    assert moved(kind, end).outcome is Outcome.PASS
    assert moved(kind, math.nextafter(end, beyond)).outcome is Outcome.FAIL


@pytest.mark.parametrize("kind", PRIMARY)
def test_a_primary_rule_is_shown_at_the_near_end_of_the_interval_and_not_beyond_it(kind):
    primary = {"role": "primary", "n_min": 20}
    now = moved(kind, {"quality_non_inferiority": -0.9}.get(kind, 1.0), **primary)
    end, beyond = (now.high, -math.inf) if kind in AT_MOST else (now.low, math.inf)

    assert moved(kind, end, **primary).outcome is Outcome.PASS
    assert moved(kind, math.nextafter(end, beyond), **primary).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("kind", INTERVALS)
def test_as_many_prompts_as_are_asked_for_are_enough(kind):
    good = {"quality_non_inferiority": -0.9, "tail_latency": 9.0, "token_amplification": 9.0}
    n = moved(kind, good.get(kind, 1.0)).n

    assert moved(kind, good.get(kind, 1.0), n_min=n).outcome is Outcome.PASS
    waiting = moved(kind, good.get(kind, 1.0), n_min=n + 1)
    assert (waiting.outcome, waiting.n) == (Outcome.INSUFFICIENT, n)
    assert waiting.low is not None  # what is known is told


def test_as_many_requests_as_are_asked_for_are_enough():
    for n_min, outcome in ((48, Outcome.PASS), (49, Outcome.INSUFFICIENT)):
        verdict = GOOD.verdict(plan(error_rate=RULES["error_rate"] | {"n_min": n_min}))
        assert entries(verdict, "error_rate")[0].outcome is outcome


def test_the_classes_are_those_a_plan_may_name():
    assert len(CLASSES) == len(KINDS)
