"""Simulated releases: what is supposed, what is counted, and whether the record is true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pipelines.study_page import filled, scenarios_of
from specdecode.errors import ConfigError
from specdecode.governance import load_plan, plan_sha256
from specdecode.governance.power import suppose
from specdecode.governance.study import Outcomes, run_scenario
from specdecode.governance.study_report import STUDY_SCHEMA, report, simulation
from specdecode.governance.study_scenarios import Scenario, promised, scenarios
from specdecode.governance.verdict import Status
from specdecode.statistics.binomial import proportion_interval
from tests.governance.plans import FASTER, WHY, small_plan

ROOT = Path(__file__).parents[2]
PLAN = load_plan(ROOT / "plans/default.yaml")
RECORDED = json.loads((ROOT / "reports/governance/study.json").read_text("utf-8"))
LETTERS = {"GO": "G", "INCONCLUSIVE": "I", "NO_GO": "N"}
QUALITY = FASTER | {"kind": "quality_non_inferiority", "name": "good", "margin": 0.1}
SMALL = small_plan(
    FASTER, {k: v for k, v in QUALITY.items() if k != "threshold"}, prompts_expected={"full": 60}
)


def scenario(*, same_score=0.9, **block):
    return Scenario("tried", "power", {"arms": {"block": block}, "same_score": same_score})


def ran(plan, supposed, runs=3, seed=0):
    return run_scenario(plan, supposed, runs=range(runs), seed=seed)


def rates(document):
    """Everything in it that is a rate."""
    if isinstance(document, list):
        return [rate for part in document for rate in rates(part)]
    if not isinstance(document, dict):
        return []
    own = [document] if {"count", "rate"} <= document.keys() else []
    return own + [rate for part in document.values() for rate in rates(part)]


@pytest.mark.parametrize("plan", [PLAN, SMALL])
def test_whatever_is_supposed_can_be_true(plan):
    asked = scenarios(plan)

    assert len({entry.name for entry in asked}) == len(asked)
    for entry in asked:
        suppose(plan, entry.changes, entry.name)


def test_identical_arms_are_identical_and_accused_at_the_audits_alpha():
    first = scenarios(PLAN)[0]
    effects = suppose(PLAN, first.changes).power.effects

    assert first.group == "identical"
    assert effects.prompt_spread == 0
    for arm in effects.arms.values():
        assert (arm.speed_ratio, arm.quality_difference, arm.error_rate) == (1, 0, 0)
        assert arm.biased == 0.01


def test_each_border_is_at_the_threshold_of_its_rule_and_exact():
    rules = {rule.name: rule for rule in PLAN.rules}
    found = Counter()
    for entry in scenarios(PLAN):
        if entry.group not in ("border", "size"):
            continue
        block = suppose(PLAN, entry.changes).power.effects.arms["block"]
        found[entry.group, entry.rule] += 1
        assert entry.alpha == 0.025
        assert block.biased == 0
        if entry.rule == "block-faster":
            assert block.speed_ratio == rules["block-faster"].threshold
        else:
            assert block.quality_difference == -rules["block-quality"].margin
            assert block.speed_ratio > rules["block-faster"].threshold

    assert found == {
        ("border", "block-faster"): 1,
        ("size", "block-faster"): 2,
        ("border", "block-quality"): 2,
        ("size", "block-quality"): 4,
    }


def test_a_plan_without_a_claim_of_speed_is_refused():
    alone = {k: v for k, v in QUALITY.items() if k != "threshold"}

    with pytest.raises(ConfigError, match="no primary speed_ratio rule"):
        scenarios(small_plan(alone))


def test_promises_are_one_sided_levels_and_alphas():
    rules = {rule.name: promised(rule) for rule in PLAN.rules}

    assert rules["block-faster"] == 0.015
    assert rules["block-tail"] == 0.025
    assert rules["block-lossless"] == 0.01
    assert rules["block-errors"] == 0


def test_runs_can_be_made_in_parts():
    supposed = scenario(speed_ratio=1.15, biased=0.3)
    parts = [run_scenario(SMALL, supposed, runs=part, seed=4) for part in (range(2), range(2, 5))]

    assert Outcomes.joined(parts) == ran(SMALL, supposed, 5, seed=4)


def test_harms_are_counted_by_the_rule_that_found_them():
    fine = ran(SMALL, scenario(same_score=1.0, speed_ratio=2.0))
    slow = ran(SMALL, scenario(same_score=1.0, speed_ratio=0.7))
    biased = ran(SMALL, scenario(same_score=1.0, speed_ratio=2.0, biased=1.0))

    assert (fine.letters, fine.alarmed, fine.failed, fine.held) == ("GGG", 0, {}, {})
    # A gain that is absent is no harm; a bias is.
    assert (slow.letters, slow.alarmed, slow.failed) == ("NNN", 0, {"block-faster": 3})
    assert (biased.letters, biased.alarmed) == ("NNN", 3)
    assert biased.failed == biased.held == {"block-lossless": 3}


def test_a_rule_that_is_not_decided_holds_and_does_not_fail():
    found = ran(SMALL, scenario(speed_ratio=1.1, quality_difference=-0.05), seed=1)

    assert found.letters == "III"
    assert not found.failed
    assert found.held["block-faster"] == 3


def test_a_rule_alone_is_judged_with_the_prompts_it_is_given():
    alone = Scenario("alone", "size", {}, 0.025, "block-faster", 90)
    short = Scenario("short", "size", {}, 0.025, "block-faster", 12)
    strata = {
        "kind": "strata",
        "name": "everywhere",
        "role": "guardrail",
        "arm": "block",
        "measure": "speed_ratio",
        "strata": {"difficulty": ["easy", "hard"], "sampling": ["sampled"]},
        "threshold": 1.0,
        "level": 0.95,
        "n_min": 12,
        "insufficient": "report",
        "why": WHY,
    }

    assert ran(SMALL, alone).letters == "GGG"
    assert ran(SMALL, short).letters == "III"  # fewer than its n_min
    assert ran(small_plan(FASTER, strata, prompts_expected={"full": 30}), scenario()).sizes == {
        "everywhere (difficulty=easy)": 15,
        "everywhere (difficulty=hard)": 15,
        "everywhere (sampling=sampled)": 30,
    }


def test_the_report_takes_the_worst_border_and_the_sum_of_the_alarms():
    counts = {"speed at the border": 1, "score at the border (12%)": 3}
    found = []
    for entry in scenarios(PLAN):
        go = counts.get(entry.name, 0)
        failed = Counter({"block-lossless": 2, "block-faster": 9}) if not found else Counter()
        sizes = dict.fromkeys(_labels(), 6)
        held = Counter({str(entry.rule): 10 - go})
        found.append((entry, Outcomes("G" * go + "I" * (10 - go), 2, failed, held, sizes)))
    document = report(PLAN, found, seed=0)

    assert document["false_go"]["case"] == "score at the border (12%)"
    assert document["false_go"]["rate"] == 0.3
    assert document["false_go"]["alpha"] == 0.025
    assert document["false_alarm"]["rate"] == 0.2
    assert document["false_alarm"]["alpha"] == pytest.approx(2 * 0.01 + 6 * 0.025)
    assert "block-faster" not in [alarm["rule"] for alarm in document["false_alarm"]["alarms"]]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def _labels():
    return [
        f"{rule.name} ({by}={value})"
        for rule in PLAN.rules
        if rule.kind == "strata"
        for by, values in rule.strata.items()
        for value in values
    ]


def test_the_picture_gets_shares_of_the_runs():
    found = simulation(PLAN, Outcomes("GGIN", 1), seed=0)

    assert {s.value: chance.count for s, chance in found.chances.items()} == {
        "INVALID": 0, "NO_GO": 1, "INCONCLUSIVE": 1, "GO": 2}  # fmt: skip
    assert found.chances[Status.GO].rate == 0.5


def test_the_study_on_record_is_of_the_default_plan():
    assert RECORDED["schema"] == STUDY_SCHEMA
    assert RECORDED["plan_sha256"] == plan_sha256(PLAN), (
        "reports/governance/study.json is of another plan than plans/default.yaml: run `make study`"
    )
    assert [entry["name"] for entry in scenarios_of(RECORDED)] == [
        entry.name for entry in scenarios(PLAN) if entry.group != "size"
    ], "the scenarios have changed since: run `make study`"


def test_the_study_on_record_can_be_recomputed():
    kept = {entry["name"]: entry["outcomes"] for entry in scenarios_of(RECORDED)}
    for entry in scenarios(PLAN):
        if entry.name in kept:
            again = ran(PLAN, entry, 2, seed=RECORDED["seed"]).letters

            assert kept[entry.name].startswith(again), (
                f"{entry.name}: the first runs come out otherwise now ({again}): run `make study`"
            )


def test_the_study_on_record_is_large_enough_and_adds_up():
    for entry in scenarios_of(RECORDED):
        assert entry["runs"] == len(entry["outcomes"])
        counted = {status: entry["outcomes"].count(LETTERS[status]) for status in LETTERS}
        assert {status: c["count"] for status, c in entry["chances"].items()} == counted
        assert sum(counted.values()) == entry["runs"]
    for found in rates(RECORDED):
        interval = proportion_interval(found["count"], found["runs"], level=RECORDED["level"])
        assert (found["rate"], found["low"], found["high"]) == (
            interval.estimate, interval.low, interval.high)  # fmt: skip
    cases, alarm = RECORDED["false_go"]["cases"], RECORDED["false_alarm"]

    assert RECORDED["false_go"]["runs"] >= 2000
    assert RECORDED["false_go"]["rate"] == max(case["chances"]["GO"]["rate"] for case in cases)
    assert all(case["rate"] <= case["rule_passes"]["rate"] for case in cases)
    assert alarm["runs"] >= 2000
    single = [entry["rate"] for entry in alarm["alarms"]]
    assert max(single) <= alarm["rate"] <= sum(single)
    assert alarm["rate"] <= alarm["chances"]["NO_GO"]["rate"]


def test_the_page_shows_the_study_on_record():
    page = (ROOT / "docs/study.md").read_text("utf-8")

    assert filled(page, RECORDED) == page
