"""Margins name the number that decides, and the verdict on its other side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.inputs import ReportInputs
from pipelines.report.sections.margins import margins_section
from pipelines.report.sensitivity import margins, status_of
from pipelines.report.words import words
from specdecode.governance.decide import _status
from specdecode.governance.verdict import Outcome, RuleResult
from tests.pipelines import report_data

ROLES = ("primary", "guardrail", "secondary", "integrity")


def rule(outcome="pass", role="primary", kind="speed_ratio", **numbers):
    known = {"estimate": 1.3, "low": 1.2, "high": 1.4, "threshold": 1.1, "n": 100}
    return {
        "name": f"{kind}-{role}",
        "kind": kind,
        "role": role,
        "arm": "block",
        "stratum": None,
        "outcome": outcome,
        "counts": role != "secondary",
        **(known | numbers),
    }


def only(found, **verdict):
    document = {"status": status_of([found]), "rules": [found]} | verdict
    [margin] = margins(document, None)
    return margin


@given(
    st.lists(
        st.tuples(st.sampled_from(ROLES), st.sampled_from(list(Outcome)), st.booleans()),
        max_size=6,
    )
)
def test_outcomes_add_up_as_they_do_at_the_gate(parts):
    results = [
        RuleResult(name="r", kind="k", role=role, outcome=outcome, reason="", counts=counts)
        for role, outcome, counts in parts
    ]
    expected, _ = _status(results)
    assert status_of([result.model_dump(mode="json") for result in results]) == expected


def test_a_primary_rule_that_was_shown_turns_at_its_near_end():
    margin = only(rule())
    assert (margin.end, margin.limit, margin.turned) == (1.2, 1.1, "undecided")
    assert margin.distance == pytest.approx(0.1)
    assert margin.half_widths == pytest.approx(1.0)
    assert margin.status == "INCONCLUSIVE"


def test_an_alarm_turns_at_its_far_end():
    tail = rule(role="guardrail", kind="tail_latency", low=0.8, high=0.9, estimate=0.85)
    found = margins({"status": "GO", "rules": [rule(), tail]}, None)
    margin = next(m for m in found if m.rule is tail)
    assert (margin.end, margin.turned, margin.status) == (0.8, "fail", "NO_GO")
    assert margin.half_widths == pytest.approx(6.0)


def test_a_failed_rule_turns_where_its_violation_is_no_longer_shown():
    margin = only(rule("fail", low=0.9, high=1.0, estimate=0.95))
    assert (margin.end, margin.turned, margin.status) == (1.0, "undecided", "INCONCLUSIVE")


def test_two_failed_rules_do_not_turn_the_verdict_one_by_one():
    failed = rule("fail", low=0.9, high=1.0, estimate=0.95)
    document = {"status": "NO_GO", "rules": [failed, {**failed, "name": "other"}]}
    assert {margin.status for margin in margins(document, None)} == {"NO_GO"}


def test_an_open_rule_says_how_many_prompts_would_close_it():
    """The near end lies 0.2 below the estimate and may lie 0.1 below: four times the prompts."""
    margin = only(rule("undecided", estimate=1.2, low=1.0, high=1.4, n=50))
    assert margin.prompts == 200
    assert margin.status == "GO"
    wrong_side = only(rule("undecided", estimate=1.05, low=0.9, high=1.2))
    assert wrong_side.prompts is None


def test_evidence_against_losslessness_is_measured_against_its_limit():
    lossless = rule(kind="losslessness", threshold=0.01, estimate=None, low=None, high=None)
    audit = {"arms": {"block": {"e_value": 4.0}}}
    [margin] = margins({"status": "GO", "rules": [lossless]}, audit)
    assert (margin.end, margin.limit, margin.status) == (4.0, 100.0, "NO_GO")
    assert margins({"status": "GO", "rules": [lossless]}, None) == []


def test_failed_requests_turn_at_the_rate_observed():
    errors = rule(kind="error_rate", role="guardrail", estimate=0.0, threshold=0.01, low=0.0)
    margin = only(errors, status="GO")
    assert (margin.end, margin.turned, margin.half_widths) == (0.0, "fail", None)


def test_secondary_rules_and_rules_without_numbers_have_no_margin():
    bare = rule("not_evaluated", estimate=None, low=None, high=None)
    odd = rule(kind="sequential")
    assert margins({"status": "GO", "rules": [rule(role="secondary"), bare, odd]}, None) == []


def test_rules_that_would_turn_the_verdict_come_first_and_the_nearest_of_them_first():
    near = rule(low=1.11, high=1.5) | {"name": "near"}
    alarm = rule(role="guardrail", low=0.99, high=1.5) | {"name": "far"}
    found = margins({"status": "GO", "rules": [alarm, near]}, None)
    assert [margin.rule["name"] for margin in found] == ["near", "far"]


@pytest.mark.parametrize("status", ["GO", "NO_GO", "INCONCLUSIVE", "INVALID"])
def test_the_section_has_a_line_or_says_why_not(status):
    inputs = ReportInputs(metrics={}, verdict=report_data.verdict(status))
    section = margins_section(inputs, words("en"))
    if status == "INVALID":
        assert "no distance can be given" in section.lead
    else:
        assert section.tables[0].rows[0][0] == "speed (block)"
