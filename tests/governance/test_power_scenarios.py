"""Truths beside the supposed one: like the baseline, and as bad as the plan hopes for good."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError
from specdecode.governance import load_plan
from specdecode.governance.power import suppose
from specdecode.governance.power_scenarios import harm, no_effect
from tests.governance.plans import EFFECT, EFFECTS, ERROR_METRIC, SPEED_METRIC, WHY, small_plan

QUALITY = {
    "kind": "quality_non_inferiority",
    "name": "quality",
    "role": "primary",
    "arm": "block",
    "margin": 0.05,
    "level": 0.95,
    "n_min": 20,
    "why": WHY,
}
FASTER = {
    "kind": "speed_ratio",
    "name": "faster",
    "role": "primary",
    "arm": "block",
    "threshold": 1.1,
    "level": 0.95,
    "n_min": 20,
    "why": WHY,
}
LENGTH_RULE = {
    "kind": "acceptance_length",
    "name": "length",
    "role": "guardrail",
    "arm": "block",
    "threshold": 2.0,
    "level": 0.95,
    "n_min": 20,
    "why": WHY,
}
LATENCY = SPEED_METRIC | {"name": "e2e_s", "transform": "indicator", "limit": 2.0, "margin": 0.95}
LENGTH = ERROR_METRIC | {"name": "mean_acceptance_length", "bounds": {"low": 1, "high": 5},
                         "direction": "higher", "margin": 2.0}  # fmt: skip
SCORE = SPEED_METRIC | {"name": "quality", "transform": "difference", "margin": 0.05}
DRAFTING = ERROR_METRIC | {"name": "draft_share", "transform": "difference", "margin": 0.1}


def live(error_rate, kept, drafting, length=None):
    values = {"draft_share": {"mean": drafting, "spread": 0.1}}
    if length is not None:
        values["mean_acceptance_length"] = {"mean": length, "spread": 1.0}
    return {"error_rate": error_rate, "kept": {"e2e_s": kept}, "values": values}


LIVE = {
    "plain": live(0.01, 0.97, 0.3),
    "block": live(0.04, 0.99, 0.25, length=3.4),
}
PLAN = small_plan(
    FASTER, QUALITY, LENGTH_RULE,
    metrics=[SPEED_METRIC, ERROR_METRIC, LATENCY, LENGTH, DRAFTING, SCORE],
    power={"wanted": 0.8, "effects": EFFECTS | {"live": LIVE}},
)  # fmt: skip


def without_effect(plan=PLAN):
    return suppose(plan, no_effect(plan)).power.effects


def harmed(metric, plan=PLAN):
    return suppose(plan, harm(plan, metric)).power.effects


def test_without_an_effect_every_arm_is_like_the_baseline():
    found = without_effect()

    for arm in ("token", "block"):
        effect = found.arms[arm]
        assert (effect.speed_ratio, effect.quality_difference, effect.error_rate) == (1, 0, 0)
        assert effect.acceptance_length == EFFECT["acceptance_length"]
    assert found.live["block"].error_rate == 0.01
    assert found.live["block"].kept == {"e2e_s": 0.97}
    assert found.live["block"].values["draft_share"].mean == 0.3  # judged against the baseline
    assert found.live["block"].values["mean_acceptance_length"].mean == 3.4  # judged by itself
    assert found.prompt_spread == 0


@pytest.mark.parametrize(
    ("metric", "of_block", "of_live"),
    [
        ("output_tokens_per_s", {"speed_ratio": 1.1**2 / 1.5}, {}),
        ("quality", {"quality_difference": -0.1}, {}),
        ("error_rate", {"error_rate": 0.2}, {"error_rate": 0.16}),
        ("e2e_s", {}, {"kept": {"e2e_s": 0.91}}),
    ],
)
def test_harm_is_the_supposed_effect_mirrored_at_its_margin(metric, of_block, of_live):
    found, planned = harmed(metric), PLAN.power.effects

    block = planned.arms["block"].model_dump() | of_block
    live = planned.live["block"].model_dump() | of_live
    assert found.arms["block"].model_dump() == pytest.approx(block)
    assert found.live["block"].error_rate == pytest.approx(live["error_rate"])
    assert found.live["block"].kept == pytest.approx(live["kept"])
    assert found.live["plain"] == planned.live["plain"]
    assert found.arms["token"] == planned.arms["token"]


def test_harm_stays_within_bounds_and_is_relative_to_the_baseline_where_the_metric_is():
    length = harmed("mean_acceptance_length")
    drafting = harmed("draft_share")

    assert length.arms["block"].acceptance_length == 1.0
    values = length.live["block"].values["mean_acceptance_length"]
    assert (values.mean, values.spread) == (1.0, 0.0)  # 0.6 would be impossible
    assert drafting.live["block"].values["draft_share"].mean == pytest.approx(2 * 0.4 - 0.25)
    assert drafting.live["block"].values["mean_acceptance_length"].mean == 3.4


@pytest.mark.parametrize("plan", [load_plan("plans/default.yaml"), small_plan()])
def test_any_plan_can_be_held_against_them(plan):
    assert without_effect(plan).live is None
    assert harmed("error_rate", plan).live is None


def test_no_more_quality_is_lost_than_the_baseline_has():
    effects = EFFECTS | {"quality": 0.08, "same_score": 0.95}
    metric = SPEED_METRIC | {"name": "quality", "transform": "difference", "margin": 0.05}
    plan = small_plan(QUALITY, metrics=[SPEED_METRIC, ERROR_METRIC, metric],
                      power={"wanted": 0.8, "effects": effects})  # fmt: skip
    found = harmed("quality", plan)

    assert found.arms["block"].quality_difference == -0.08
    assert found.same_score == pytest.approx(0.92)


@pytest.mark.parametrize("metric", ["luck", "tpot_s"])
def test_harm_that_no_effect_stands_for_is_refused_with_those_that_can_be(metric):
    with pytest.raises(ConfigError, match=f"harm to {metric} .* output_tokens_per_s, error_rate, "):
        harm(PLAN, metric)
