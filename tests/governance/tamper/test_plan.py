"""A threshold moved, another plan, other inputs."""

from __future__ import annotations

import json

import pytest

from specdecode.governance import Status
from tests.governance.bundles import QUALITY_CHECKS, edited, good, repacked
from tests.governance.tamper.attacks import compact, lower, other_files, stolen, unsigned
from tests.measurement.factories import run


def test_a_moved_threshold_is_not_the_plan_that_was_measured_for(bundle, checked):
    plan = json.loads(bundle["plan.json"])
    lower(plan)

    code, wrong, text = checked(repacked(unsigned(bundle, **{"plan.json": compact(plan)})))

    assert code == 3
    assert wrong == {"plan", "seal", "ledger", "rules"}
    assert "the verdict is of plan" in text


def test_a_threshold_moved_everywhere_is_seen_by_the_seal(bundle, checked, tmp_path):
    plan = json.loads(bundle["plan.json"])
    lower(plan)
    made, files = other_files(tmp_path, plan=plan)

    code, wrong, text = checked(stolen(bundle, files))

    assert made.verdict.status is Status.GO
    assert code == 3
    assert wrong == {"seal", "ledger", "approvals"}
    assert "the seal is of another plan" in text


def test_rows_chosen_afterwards_are_seen_by_ledger_and_approval(bundle, checked, tmp_path):
    made, files = other_files(tmp_path, rows=[r for r in run(24) if r.prompt_id != "p0004"])

    code, wrong, text = checked(stolen(bundle, files))

    assert made.verdict.status is Status.GO
    assert code == 3
    assert wrong == {"ledger", "approvals"}
    assert "the ledger records another verdict" in text


def test_exchanged_inputs_break_their_seal(bundle, checked):
    change = lambda m: m["entries"].update(lock="d" * 64)  # noqa: E731
    attacked = unsigned(bundle, **{"manifest.json": edited(bundle["manifest.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"inputs"})
    assert "entries are not the sealed ones" in text


def test_data_quality_of_other_prompts_is_seen(bundle, checked):
    attacked = unsigned(bundle, **{"data_quality.json": QUALITY_CHECKS + b" "})

    assert checked(repacked(attacked))[:2] == (3, {"inputs"})


def test_a_plan_file_that_says_something_else_is_seen(bundle, checked):
    attacked = unsigned(bundle, **{"plan.yaml": bundle["plan.yaml"].replace(b"1.1", b"0.5")})

    assert checked(repacked(attacked))[:2] == (3, {"plan"})


SMALL = {
    "an unknown plan schema": (
        "plan.json", lambda p: p.update(schema="specdecode.plan/9"), "schema specdecode.plan/9"),
    "an unknown kind of rule": (
        "plan.json", lambda p: p["rules"][3].update(kind="vibes"), "rules of kind vibes"),
    "no anchor": ("record.json", lambda r: r.update(anchors=[]), "not even 'none'"),
    "a time without a zone": (
        "record.json", lambda r: r.update(at="2026-01-03T00:00:00"), "is not a time in UTC"),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_what_cannot_be_judged_is_not_passed(bundle, checked, name):
    file, change, cause = SMALL[name]

    code, _, text = checked(repacked(unsigned(bundle, **{file: edited(bundle[file], change)})))

    assert code in (3, 12)
    assert cause in text


NUMBERS = ("threshold", "margin", "max_rate", "alpha", "level", "n_min", "quantile")
MOVED = [(rule.name, number) for rule in good().plan.rules
         for number in NUMBERS if hasattr(rule, number)]  # fmt: skip


@pytest.mark.parametrize(("name", "number"), MOVED)
def test_no_number_of_any_rule_can_be_moved(bundle, checked, name, number):
    """By a thousandth, or by one prompt."""
    plan = json.loads(bundle["plan.json"])
    rule = next(rule for rule in plan["rules"] if rule["name"] == name)
    rule[number] = rule[number] + 1 if number == "n_min" else rule[number] * 0.999

    code, wrong, text = checked(repacked(unsigned(bundle, **{"plan.json": compact(plan)})))

    assert code == 3
    assert {"plan", "seal", "ledger"} <= wrong
    assert "the verdict is of plan" in text


def test_rules_cannot_be_put_into_another_order(bundle, checked):
    plan = json.loads(bundle["plan.json"])
    plan["rules"].reverse()

    code, wrong, text = checked(repacked(unsigned(bundle, **{"plan.json": compact(plan)})))

    assert (code, wrong) == (3, {"plan", "seal", "ledger"})
    assert "the seal is of another plan" in text
