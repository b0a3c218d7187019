"""Sentences made from the codes of a verdict say what the gate said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.report.findings import composed, finding, reasons, remedies, stratum_label
from pipelines.report.section import Quoted
from pipelines.report.words import words
from specdecode.governance import load_plan
from specdecode.governance.verdict import Outcome
from specdecode.statistics.interval import Interval

ROOT = Path(__file__).resolve().parents[2]
EN, JA = words("en"), words("ja")
VERDICT = json.loads((ROOT / "reports/verdict.json").read_text(encoding="utf-8"))
PLAN = load_plan(ROOT / "plans/default.yaml")
PLAN_JSON = PLAN.model_dump(mode="json")
JUDGED = [rule for rule in PLAN.rules if hasattr(rule, "side")]
INTERVALS = {
    "far below": Interval(0.1, 0.05, 0.2, n=100, level=0.95, method="test"),
    "around": Interval(1.0, -5.0, 9.0, n=100, level=0.95, method="test"),
    "far above": Interval(9.0, 8.0, 9.5, n=100, level=0.95, method="test"),
}


def test_the_english_sentence_is_the_gate_s_own_for_every_rule_of_the_verdict_on_record():
    judged = [rule for rule in VERDICT["rules"] if rule["kind"] != "integrity"]
    assert len(judged) > 30
    for rule in judged:
        assert composed(rule, PLAN_JSON, EN) == rule["reason"], rule["name"]


@pytest.mark.parametrize("place", INTERVALS)
@pytest.mark.parametrize("rule", JUDGED, ids=lambda rule: rule.name)
def test_every_outcome_of_an_interval_is_said_as_the_gate_says_it(rule, place):
    threshold = getattr(rule, "threshold", None)
    entry = rule.judge(INTERVALS[place], -0.1 if threshold is None else threshold)
    assert composed(entry.model_dump(mode="json"), PLAN_JSON, EN) == entry.reason


@pytest.mark.parametrize("rule", JUDGED, ids=lambda rule: rule.name)
def test_too_little_data_is_said_as_the_gate_says_it(rule):
    entry = rule.judge(None, 1.0, n=3, stratum="language=ja")
    assert entry.outcome is Outcome.INSUFFICIENT
    document = entry.model_dump(mode="json")
    assert composed(document, PLAN_JSON, EN) == entry.reason
    assert "3 件（language=ja）" in str(composed(document, PLAN_JSON, JA))
    [said] = remedies({"to_change": [entry.remedy], "rules": [document]}, PLAN_JSON, JA)
    assert f"{rule.n_min} プロンプト以上" in str(said)


def test_the_reasons_of_a_verdict_come_in_japanese_with_the_same_numbers():
    """Of an interval made here: the verdict on record has other numbers after every evaluation."""
    [rule] = [rule for rule in JUDGED if rule.name == "block-faster"]
    shown = rule.judge(Interval(1.26, 1.226, 1.295, n=100, level=0.97, method="test"), 1.1)
    document = {
        "reasons": [f"{shown.name} (block): {shown.reason}"],
        "rules": [shown.model_dump(mode="json")],
    }
    assert reasons(document, PLAN_JSON, JA) == [
        "block-faster (block): 基準に対する速度比 1.26、"
        "97 % 区間 1.226 〜 1.295（100 プロンプト）。"
        "条件は 1.1 以上: 示された"
    ]
    assert reasons(VERDICT, PLAN_JSON, EN) == VERDICT["reasons"]


def test_what_the_codes_do_not_tell_is_quoted_as_english():
    broken = {
        "name": "integrity/arms",
        "kind": "integrity",
        "outcome": "invalid",
        "reason": "arm block has no rows",
    }
    assert finding(broken, None, JA) == Quoted("arm block has no rows", "en")
    assert finding(broken, None, EN) == "arm block has no rows"
    verdict = {"reasons": ["nobody: said so"], "to_change": ["do it"], "rules": [broken]}
    assert reasons(verdict, None, JA) == [Quoted("nobody: said so", "en")]
    assert remedies(verdict, None, JA) == [Quoted("do it", "en")]


def test_without_the_plan_a_tail_cannot_be_named_and_is_quoted():
    tail = next(rule for rule in VERDICT["rules"] if rule["kind"] == "tail_latency")
    assert composed(tail, None, JA) is None
    assert "TPOT" not in str(finding(tail, None, JA))


def test_strata_are_called_by_the_name_of_their_field():
    assert stratum_label("language=ja", JA) == "言語 = ja"
    assert stratum_label("step=0.05", JA) == "step = 0.05"
    assert stratum_label("all", JA) == "all"
