"""Simulated decisions: rows that mean what the effects say, and chances that follow from them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance import Status, decide, load_plan
from specdecode.governance.lints.size import prompts_needed
from specdecode.governance.power import simulate, suppose
from specdecode.governance.power_outcome import LEVEL
from specdecode.governance.power_rows import simulated_rows
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.records import to_records
from specdecode.statistics.binomial import proportion_interval
from tests.governance.plans import LOSSLESS, OFFLINE, WHY, small_plan

TAIL = {
    "kind": "tail_latency",
    "name": "tail",
    "arm": "block",
    "role": "guardrail",
    "metric": "tpot_s",
    "quantile": 0.95,
    "threshold": 1.1,
    "level": 0.95,
    "n_min": 20,
    "why": WHY,
}
LONG = {"prompts_expected": {"full": 30, "smoke": 4}}
PLAN = small_plan(**LONG)
PRIMARY = PLAN.model_dump()["rules"][-1]


def rows(plan, prompts=400, seed=0):
    rng = np.random.default_rng(seed)
    return simulated_rows(plan, prompts=prompts, profile="full", rng=rng)


def records(plan, **options):
    return list(to_records(rows(plan, **options)))


def pooled(name, arm, found):
    parts = [METRICS[name].parts(r) for r in found if r.arm == arm]
    parts = [part for part in parts if part is not None]
    return sum(top for top, _ in parts) / sum(bottom for _, bottom in parts)


def chances(simulation):
    return {status.value: chance.count for status, chance in simulation.chances.items()}


def supposing(**block):
    return suppose(PLAN, {"arms": {"block": block}})


def test_rows_show_what_was_supposed():
    plan = supposing(
        speed_ratio=1.3, acceptance_length=2.5, quality_difference=-0.05, error_rate=0.1
    )
    found = records(plan, prompts=4000)
    fast, base = (pooled("output_tokens_per_s", arm, found) for arm in ("block", "plain"))
    quality = pooled("quality", "block", found) - pooled("quality", "plain", found)
    failed = [r.error is not None for r in found if r.arm == "block"]

    assert fast / base == pytest.approx(1.3, rel=0.02)
    assert pooled("mean_acceptance_length", "block", found) == pytest.approx(2.5, rel=0.02)
    assert quality == pytest.approx(-0.05, abs=0.015)
    assert pooled("quality", "plain", found) == pytest.approx(0.5, abs=0.02)
    assert np.mean(failed) == pytest.approx(0.1, abs=0.02)
    assert not any(r.error for r in found if r.arm == "plain")


def test_scores_of_two_arms_agree_as_often_as_supposed():
    found = records(PLAN, prompts=4000)
    scores = {(r.prompt_id, r.sampling_name, r.arm): r.quality for r in found}
    pairs = [
        (value, scores[prompt, setting, "block"])
        for (prompt, setting, arm), value in scores.items()
        if arm == "plain" and value is not None
    ]

    assert len(pairs) / 8000 == pytest.approx(0.9, abs=0.001)
    assert np.mean([one == other for one, other in pairs]) == pytest.approx(0.9, abs=0.015)


def test_strata_have_the_supposed_shares():
    plan = load_plan("plans/default.yaml")
    found = records(plan, prompts=100)
    labels = {r.prompt_id: (r.difficulty, r.language) for r in found}
    languages = [language for _, language in labels.values()]

    assert [d for d, _ in labels.values()].count("adversarial") == 17
    assert {languages.count(value) for value in set(languages)} == {14, 15}


def test_the_same_seed_gives_the_same_rows_and_another_gives_others():
    assert rows(PLAN, seed=3).equals(rows(PLAN, seed=3))
    assert not rows(PLAN, seed=3).equals(rows(PLAN, seed=4))


def test_a_simulation_depends_on_plan_runs_and_seed_alone():
    assert simulate(PLAN, runs=5, seed=2) == simulate(PLAN, runs=5, seed=2)
    assert simulate(PLAN, runs=7, seed=2).runs == 7


def test_a_large_effect_is_go_and_a_slow_arm_is_no_go():
    fast = simulate(supposing(speed_ratio=2.0), runs=6)
    slow = simulate(supposing(speed_ratio=0.8), runs=6)

    assert chances(fast) == {"INVALID": 0, "NO_GO": 0, "INCONCLUSIVE": 0, "GO": 6}
    assert chances(slow) == {"INVALID": 0, "NO_GO": 6, "INCONCLUSIVE": 0, "GO": 0}
    assert slow.held_by == {"block-faster": 6}
    assert fast.held_by == {}


def test_an_effect_at_the_threshold_is_hardly_ever_go():
    found = simulate(supposing(speed_ratio=1.1), runs=40)

    assert found.chances[Status.GO].count <= 4  # 2.5 % a run at most, were intervals exact


def test_a_biased_arm_is_no_go_however_fast():
    found = simulate(supposing(speed_ratio=2.0, biased=1.0), runs=4)

    assert chances(found)["NO_GO"] == 4
    assert found.held_by == {"block-lossless": 4}


def test_a_guardrail_on_a_comparators_exactness_has_its_say():
    plan = suppose(PLAN, {"arms": {"token": {"biased": 1.0}, "block": {"speed_ratio": 2.0}}})

    assert simulate(plan, runs=3).held_by == {"token-lossless": 3}


def test_failing_requests_are_no_go():
    assert chances(simulate(supposing(speed_ratio=2.0, error_rate=0.5), runs=3))["NO_GO"] == 3


def test_chances_are_shares_with_clopper_pearson_intervals():
    found = simulate(supposing(speed_ratio=1.13), runs=12)

    assert sum(chances(found).values()) == 12
    for chance in found.chances.values():
        interval = proportion_interval(chance.count, 12, level=LEVEL)
        assert (chance.rate, chance.low, chance.high) == (
            interval.estimate, interval.low, interval.high)  # fmt: skip


def test_the_whole_decision_agrees_with_decide_on_the_same_rows():
    plan = small_plan(PRIMARY, TAIL, **LONG)
    view = suppose(plan, {"arms": {"block": {"speed_ratio": 1.16}}, "prompt_spread": 0.2}).at(
        "offline"
    )
    reads = [rule for rule in view.rules if rule.kind != "losslessness"]
    whole = view.model_copy(update={"rules": reads})
    runs = 12
    statuses = []
    for run in range(runs):
        rng = np.random.default_rng([5, run])
        table = simulated_rows(view, prompts=30, profile="full", rng=rng)
        statuses.append(decide(whole, table).status)
    found = simulate(view, runs=runs, seed=5)

    assert {s.value: statuses.count(s) for s in Status} == chances(found)


def test_a_stage_that_decide_cannot_judge_is_not_simulated():
    canary = OFFLINE | {"name": "canary", "rules": [], "metrics": ["error_rate"],
                        "method": "betting", "steps": [0.5]}  # fmt: skip

    with pytest.raises(ConfigError, match="canary has no rules"):
        simulate(small_plan(stages=[OFFLINE, canary]), stage="canary")


def test_a_plan_of_losslessness_alone_is_held_by_the_audit_and_nothing_else():
    lossless = [rule | {"alpha": 0.01, "why": WHY} for rule in LOSSLESS]
    errors = PLAN.model_dump()["rules"][2]
    plan = small_plan(rules=[*lossless, errors])

    assert chances(simulate(plan, runs=3))["GO"] == 3
    accused = suppose(plan, {"arms": {"block": {"biased": 1.0}}})
    assert simulate(accused, runs=3).held_by == {"block-lossless": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": {"blok": {"speed_ratio": 1.2}}}, "arms: blok: expected fields of one of token"),
        ({"arms": {"block": 2}}, "expected fields of one of"),
        ({"arms": [1]}, "arms: expected"),
        ({"arms": {"block": {"speed": 2}}}, "block.speed: no such field"),
        ({"arms": {"block": {"acceptance_length": 5.5}}}, "above its draft length"),
        ({"quality": 2.0}, "quality: .*less than or equal to 1"),
        ({"mood": 1}, "mood: no such field"),
    ],
)
def test_impossible_effects_are_refused_by_name(changes, message):
    with pytest.raises(ConfigError, match=message):
        suppose(PLAN, changes, "effects.yaml: mine")


def test_other_effects_leave_the_rules_alone():
    assert supposing(speed_ratio=1.2).rules == PLAN.rules
    with pytest.raises(ConfigError, match="runs must be at least 1"):
        simulate(PLAN, runs=0)


def test_the_document_of_a_simulation_is_json():
    document = simulate(PLAN, runs=2).to_json()

    assert json.loads(json.dumps(document)) == document
    assert document["expected_n"] == 30
    assert list(document["chances"]) == ["INVALID", "NO_GO", "INCONCLUSIVE", "GO"]


BLOCKS = st.fixed_dictionaries(
    {
        "speed_ratio": st.floats(0.2, 5),
        "quality_difference": st.floats(-0.1, 0.1),
        "error_rate": st.floats(0, 1),
        "acceptance_length": st.floats(1, 5),
    }
)
SUPPOSED = st.fixed_dictionaries(
    {
        "arms": st.fixed_dictionaries({"block": BLOCKS}),
        "checked": st.floats(0, 1),
        "prompt_spread": st.floats(0, 0.6),
        "request_spread": st.floats(0, 0.6),
        "output_tokens": st.integers(2, 60),
    }
)


@settings(max_examples=25, deadline=None)
@given(SUPPOSED, st.integers(0, 99))
def test_whatever_is_supposed_makes_rows_that_are_evidence(changes, seed):
    view = suppose(PLAN, changes).at("offline")
    reads = [rule for rule in view.rules if rule.kind != "losslessness"]
    verdict = decide(view.model_copy(update={"rules": reads}), rows(view, prompts=30, seed=seed))

    assert verdict.status is not Status.INVALID


@pytest.mark.parametrize("difference", [-0.1, 0.1])
def test_scores_may_differ_in_one_direction_only(difference):
    plan = suppose(PLAN, {"same_score": 0.9, "arms": {"block": {"quality_difference": difference}}})

    changes = plan.power.effects.score_changes("block")
    assert sorted(changes) == pytest.approx([0.0, 0.1], abs=1e-12)


def test_the_formula_of_the_lint_is_about_what_the_simulation_finds():
    # (1.960 + 0.842)^2 (0.2^2 + 2 * 0.1^2 / 2) / log(1.2145 / 1.1)^2 = 40
    block = {"speed_ratio": 1.2145}
    plan = suppose(
        small_plan(prompts_expected={"full": 40}),
        {"arms": {"block": block}, "prompt_spread": 0.2, "request_spread": 0.1},
    )
    needed = prompts_needed(plan, next(rule for rule in plan.rules if rule.kind == "speed_ratio"))
    found = simulate(plan, runs=100).chances[Status.GO]

    assert needed == pytest.approx(40.0, abs=0.1)
    assert found.low < plan.power.wanted < found.high
