"""What a plan may suppose of its live requests."""

from __future__ import annotations

import json

import pytest

from specdecode.errors import ConfigError
from specdecode.governance.plan import canonical_json, parse_plan
from tests.governance.plans import EFFECTS, ERROR_METRIC, SPEED_METRIC, small_plan

LATENCY = SPEED_METRIC | {"name": "e2e_s", "transform": "indicator", "limit": 2.0, "margin": 0.9}
LENGTH = ERROR_METRIC | {"name": "mean_acceptance_length", "bounds": {"low": 1, "high": 5}}
METRICS = [SPEED_METRIC, ERROR_METRIC, LATENCY, LENGTH]


def live(**block):
    base = {"error_rate": 0.0}
    return {"plain": base, "block": base | block}


def plan(effects):
    return small_plan(metrics=METRICS, power={"wanted": 0.8, "effects": EFFECTS | effects})


def test_a_plan_without_them_has_the_json_it_had_before_there_were_any():
    assert "live" not in json.loads(canonical_json(plan({})))["power"]["effects"]
    assert plan({}) == plan({"live": None})


def test_what_is_supposed_of_live_requests_is_part_of_the_plan():
    supposed = plan({"live": live(kept={"e2e_s": 0.97}, values={
        "mean_acceptance_length": {"mean": 3, "spread": 1.5}})})  # fmt: skip

    assert supposed.power.effects.live["block"].kept == {"e2e_s": 0.97}
    assert parse_plan(json.loads(canonical_json(supposed))) == supposed


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        ({"error_rate": 1.5}, "error_rate: .*less than or equal to 1"),
        ({"kept": {"ttft_s": 0.9}}, "live: block: kept: ttft_s is no metric of the plan with tr"),
        ({"kept": {"error_rate": 0.9}}, "kept: error_rate is no metric of the plan with transfo"),
        ({"kept": {"e2e_s": 90}}, "e2e_s: .*less than or equal to 1"),
        ({"values": {"luck": {"mean": 1, "spread": 0}}}, "luck is no metric of the plan with two"),
        ({"values": {"e2e_s": {"mean": 1, "spread": 0}}}, "e2e_s is no metric .*go to kept"),
        ({"values": {"output_tokens_per_s": {"mean": 1, "spread": 0}}}, "with two bounds"),
        (
            {"values": {"mean_acceptance_length": {"mean": 6, "spread": 0}}},
            "mean_acceptance_length: mean 6 lies outside 1 to 5",
        ),
        (
            {"values": {"mean_acceptance_length": {"mean": 3, "spread": 2.1}}},
            "a spread of 2.1 around 3 needs values outside 1 to 5; 2 is the most",
        ),
    ],
)
def test_what_no_request_could_show_is_refused(effect, message):
    with pytest.raises(ConfigError, match=message):
        plan({"live": live(**effect)})


@pytest.mark.parametrize("arms", [["plain"], ["block"], ["plain", "block", "token"]])
def test_named_are_the_arms_that_users_meet(arms):
    with pytest.raises(ConfigError, match="live is to name the baseline and all candidates"):
        plan({"live": {arm: {"error_rate": 0.0} for arm in arms}})
