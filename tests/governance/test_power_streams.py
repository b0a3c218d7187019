"""Made-up live requests show what was supposed of them."""

from __future__ import annotations

import numpy as np
import pytest

from specdecode.governance.live.alarms import metrics_of
from specdecode.governance.live.values import row_values
from specdecode.governance.power_streams import Stream
from tests.governance.live_plans import CANARY, LATENCY, LIVE, SHADOW, live_plan
from tests.governance.plans import ERROR_METRIC

N = 20_000
DRAFTING = LIVE["block"]["values"]


def indicator(name, limit):
    return LATENCY | {"name": name, "limit": limit}


def made(plan, stage="shadow", step=None, n=N, seed=0):
    view = plan.at(stage)
    metrics = metrics_of(view, view.sequential_stage)
    found = Stream(view, metrics).requests(
        view.sequential_stage, step, n, np.random.default_rng(seed)
    )
    return found, {metric.name: metric for metric in metrics}


def mean(metric, rows):
    return np.nanmean(row_values(metric, rows))


def test_failures_limits_and_values_are_as_frequent_as_supposed():
    values = DRAFTING | {"target_tokens_per_output_token": {"mean": 2.6, "spread": 0.4}}
    found, metrics = made(
        live_plan(plain={"error_rate": 0.02}, block={"error_rate": 0.05, "values": values})
    )
    drafting = row_values(metrics["draft_share"], found.arm)

    assert mean(metrics["error_rate"], found.arm) == pytest.approx(0.05, abs=0.006)
    assert mean(metrics["error_rate"], found.baseline) == pytest.approx(0.02, abs=0.004)
    assert mean(metrics["e2e_s"], found.arm) == pytest.approx(0.95 * 0.97, abs=0.008)  # of all
    assert np.nanmean(drafting) == pytest.approx(0.3, abs=0.004)
    assert np.nanstd(drafting) == pytest.approx(0.1, abs=0.004)
    rows = mean(metrics["target_tokens_per_output_token"], found.arm)
    assert rows == pytest.approx(2.6, abs=0.02)


def test_what_is_not_said_follows_from_the_other_effects():
    found, metrics = made(live_plan(checked=0.5))
    numbers = found.arm.numbers
    length = 1 + numbers["accepted"].sum() / numbers["steps"].sum()
    score = mean(metrics["quality"], found.arm) - mean(metrics["quality"], found.baseline)

    assert length == pytest.approx(3.0, rel=0.01)
    assert mean(metrics["target_tokens_per_output_token"], found.baseline) == 1.0
    assert mean(metrics["quality"], found.baseline) == pytest.approx(0.9, abs=0.01)
    assert score == pytest.approx(0.0, abs=0.01)
    assert np.isnan(numbers["quality"]).mean() == pytest.approx(0.5, abs=0.015)
    # A gap in one arm of a pair would be missing data.
    assert (np.isnan(numbers["quality"]) == np.isnan(found.baseline.numbers["quality"])).all()
    agree = numbers["quality"] == found.baseline.numbers["quality"]
    assert agree[~np.isnan(numbers["quality"])].mean() == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(
    "metrics",
    [
        [indicator("ttft_s", 0.3), indicator("tpot_s", 0.05), indicator("e2e_s", 2.0)],
        [indicator("ttft_s", 0.3), indicator("tpot_s", 0.05)],
        [indicator("tpot_s", 0.05), indicator("e2e_s", 2.0)],
        [indicator("ttft_s", 0.3), indicator("output_tokens_per_s", 9.0)],
        [indicator("output_tokens_per_s", 9.0)],
        [indicator("ttft_s", 0.3)],
    ],
)
def test_each_limit_is_kept_by_its_own_share_whatever_else_has_one(metrics):
    shares = {"ttft_s": 0.9, "tpot_s": 0.8, "e2e_s": 0.7, "output_tokens_per_s": 0.6}
    kept = {metric["name"]: shares[metric["name"]] for metric in metrics}
    live = {arm: {"error_rate": 0.0, "kept": kept} for arm in LIVE}
    plan = live_plan(SHADOW | {"metrics": list(kept)}, metrics=[ERROR_METRIC, *metrics], live=live)
    found, judged = made(plan)

    for name, share in kept.items():
        assert mean(judged[name], found.arm) == pytest.approx(share, abs=0.012)
    assert (found.arm.numbers["ttft_s"] <= found.arm.numbers["e2e_s"]).all()
    assert (found.arm.numbers["output_tokens"] >= 2).all()


@pytest.mark.parametrize(("spread", "values"), [(0.0, {0.3}), (0.21**0.5, {0.0, 1.0})])
def test_a_spread_of_nothing_and_the_widest_one_are_possible(spread, values):
    plan = live_plan(block={"values": {"draft_share": {"mean": 0.3, "spread": spread}}})
    found, metrics = made(plan, n=2000)

    assert set(np.round(row_values(metrics["draft_share"], found.arm), 9)) == values
    assert mean(metrics["draft_share"], found.arm) == pytest.approx(0.3, abs=0.04)


def test_a_canary_sends_each_step_its_share():
    found, _ = made(live_plan(CANARY), "canary", "0.25", n=4000)
    arms, known = found.assigned, found.known

    assert arms.sum() == 4000 == len(found.arm)
    assert len(found.baseline) == len(arms) - 4000
    assert arms.mean() == pytest.approx(0.25, abs=0.01)
    places = np.flatnonzero(arms)
    assert known[0] == (~arms[: places[1]]).sum()
    assert known[-1] == len(found.baseline)


def test_strata_have_the_supposed_shares():
    plan = live_plan(shares={"sampling": {"greedy": 0.2, "sampled": 0.8}})
    found, _ = made(plan)

    assert (found.labels["sampling"] == "greedy").mean() == pytest.approx(0.2, abs=0.01)
    assert (made(live_plan())[0].labels["sampling"] == "greedy").mean() == pytest.approx(
        0.5, abs=0.012
    )
