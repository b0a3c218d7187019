"""Simulated live stages: the same answers after the same units as `decide`, and plain truths."""

from __future__ import annotations

import numpy as np
import pytest

from specdecode.errors import ConfigError
from specdecode.governance import Outcome, Status, decide
from specdecode.governance.power import simulate, suppose
from specdecode.governance.power_live import WATCHED, _Simulated, live_runs
from specdecode.governance.power_streams import Stream
from tests.governance.live_plans import (
    CANARY,
    LATENCY,
    LIVE,
    METRICS,
    SHADOW,
    WATCH,
    live_plan,
    rows_of,
)
from tests.governance.plans import ERROR_METRIC, WHY

STRATA = {
    "kind": "strata",
    "name": "everywhere",
    "role": "guardrail",
    "arm": "block",
    "measure": "speed_ratio",
    "strata": {"category": ["chat", "code"]},
    "threshold": 1.0,
    "level": 0.95,
    "n_min": 5,
    "insufficient": "report",
    "why": WHY,
}
# What makes each answer likely, and some in between; `quality` is a difference of both arms.
TRUTHS = {
    "good": {},
    "late": {"block": {"kept": {"e2e_s": 0.55}}},
    "border": {"block": {"kept": {"e2e_s": 0.84}, "error_rate": 0.06}},
    "failing": {"block": {"error_rate": 0.3}},
    "drafting": {"block": {"values": {"draft_share": {"mean": 0.6, "spread": 0.2}}}},
    "wasteful": {
        "block": {
            "values": LIVE["block"]["values"]
            | {"target_tokens_per_output_token": {"mean": 4.5, "spread": 0.3}}
        }
    },
    "worse": {
        "block": {"values": LIVE["block"]["values"] | {"quality": {"mean": 0.2, "spread": 0.3}}}
    },
}
STAGES = {
    "shadow": SHADOW,
    "canary": CANARY,
    "watch": WATCH,
    "rates": SHADOW | {"method": "beta-binomial"},
    "bernstein": SHADOW | {"method": "empirical-bernstein"},
}


def runs_of(view, seeds, monkeypatch):
    """Each run's end, with the requests and the end of each step."""
    steps: list[list] = []
    make, valid = Stream.requests, _Simulated._valid

    def requests(self, stage, step, n, rng):
        found = make(self, stage, step, n, rng)
        steps[-1].append([step, found, 0])
        return found

    def end_of_step(self, step, found, end, seen):
        end = valid(self, step, found, end, seen)
        steps[-1][-1][2] = end.n
        return end

    monkeypatch.setattr(Stream, "requests", requests)
    monkeypatch.setattr(_Simulated, "_valid", end_of_step)
    simulated = _Simulated(view)
    for seed in seeds:
        steps.append([])
        yield simulated.run(np.random.default_rng(seed)), steps[-1]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("truth", TRUTHS)
def test_answers_and_moments_are_those_of_decide(stage, truth, monkeypatch):
    plan = live_plan(STAGES[stage], **TRUTHS[truth])
    name = STAGES[stage]["name"]
    view = plan.at(name)
    for end, steps in runs_of(view, range(2), monkeypatch):
        assert decide(view, rows_of(plan, name, steps)).status is end.status
        assert end.n == sum(n for _, _, n in steps)
        *before, (step, requests, n) = steps
        if n > 1 and name != "watch":
            earlier = [*before, (step, requests, n - 1)]
            assert decide(view, rows_of(plan, name, earlier)).status is Status.INCONCLUSIVE


def held(entry):
    return f"{entry.name} ({entry.stratum})" if entry.stratum else entry.name


def test_an_alarm_in_a_part_of_the_traffic_stops_the_stage_as_in_decide(monkeypatch):
    view = live_plan(
        SHADOW, more=[STRATA], strata=STRATA["strata"],
        shares={"category": {"chat": 0.2, "code": 0.8}},
        block={"error_rate": 0.4},
    ).at("shadow")  # fmt: skip
    parts = set()
    for end, steps in runs_of(view, range(12), monkeypatch):
        verdict = decide(view, rows_of(view, "shadow", steps))
        failing = {held(e) for e in verdict.rules if e.counts and e.outcome is Outcome.FAIL}
        if end.status is Status.NO_GO:
            assert set(end.held) == failing
            parts |= failing
        assert verdict.status is end.status

    assert any("category=" in name for name in parts)


def test_failures_of_the_baseline_are_no_evidence(monkeypatch):
    plan = live_plan(SHADOW, CANARY, plain={"error_rate": 0.4})
    for stage in ("shadow", "canary"):
        view = plan.at(stage)
        for end, steps in runs_of(view, range(3), monkeypatch):
            assert end.status is Status.INVALID
            assert end.held == ("integrity/baseline_works",)
            assert decide(view, rows_of(view, stage, steps)).status is Status.INVALID


def test_arms_that_do_not_get_their_shares_are_no_evidence(monkeypatch):
    make = Stream.requests

    def lopsided(self, stage, step, n, rng):
        return make(self, stage, "0.1", n, rng)

    monkeypatch.setattr(Stream, "requests", lopsided)
    view = live_plan(CANARY | {"n_min": 100, "n_max": 200}).at("canary")
    end = _Simulated(view).run(np.random.default_rng(0))

    assert end.status is Status.INVALID
    assert end.held == ("integrity/sample_ratio",)
    assert end.n < 100


def test_a_value_outside_its_bounds_is_no_evidence():
    narrow = [m | {"bounds": {"low": 0, "high": 1.5}, "margin": 1.2} if "target" in m["name"] else m
              for m in METRICS]  # fmt: skip

    run, most = live_runs(live_plan(SHADOW, metrics=narrow).at("shadow"))
    end = run(np.random.default_rng(0))

    assert most == SHADOW["n_max"]

    assert end.status is Status.INVALID
    assert end.held == ("target_tokens_per_output_token (outside its bounds)",)


def test_an_arm_that_the_audit_accuses_is_no_go():
    audited = SHADOW | {"rules": ["block-lossless"]}
    plan = suppose(live_plan(audited), {"arms": {"block": {"biased": 1.0}}})
    found = simulate(plan, stage="shadow", runs=3)

    assert found.chances[Status.NO_GO].count == 3
    assert found.held_by == {"block-lossless": 3}
    assert simulate(live_plan(audited), stage="shadow", runs=3).chances[Status.GO].count == 3


def test_chances_of_a_live_stage_are_those_of_its_runs_and_so_is_the_time():
    found = simulate(live_plan(block={"kept": {"e2e_s": 0.86}}), stage="shadow", runs=40, seed=1)
    again = simulate(live_plan(block={"kept": {"e2e_s": 0.86}}), stage="shadow", runs=40, seed=1)

    assert found == again
    assert found.unit == "request"
    assert 0 < found.chances[Status.GO].count < 40
    undecided = found.chances[Status.INCONCLUSIVE].count
    assert [end.n for end in found.ends].count(150) >= undecided > 0
    assert found.n_for(0.5) is None or found.n_for(0.5) <= 150


def test_a_canary_needs_every_step_and_names_the_one_that_held_it():
    shadow = simulate(live_plan(), stage="shadow", runs=10)
    canary = simulate(live_plan(), stage="canary", runs=10)
    late = simulate(live_plan(block={"kept": {"e2e_s": 0.5}}), stage="canary", runs=10)

    assert canary.expected_n >= 40
    assert shadow.expected_n >= 20
    assert "e2e_s (step=0.25)" in late.held_by
    assert not any("step=0.5)" in name for name in late.held_by)


def test_a_false_go_is_as_rare_as_alpha_says():
    border = live_plan(SHADOW | {"n_max": 600}, block={"error_rate": 0.0, "kept": {"e2e_s": 0.8}})
    found = simulate(border, stage="shadow", runs=100)

    # P(Binomial(100, 0.05) > 11) is 0.4 %; the sequence spends less than its alpha by then.
    assert found.chances[Status.GO].count <= 11


def test_a_watch_without_end_is_simulated_for_so_long_and_silence_is_go():
    found = simulate(live_plan(WATCH | {"n_max": None}), stage="watch", runs=1)

    assert found.expected_n == WATCHED
    assert found.chances[Status.GO].count == 1


@pytest.mark.parametrize(
    ("live", "message"),
    [
        (None, r"shadow cannot be simulated: power\.effects\.live is null"),
        (LIVE | {"block": {"error_rate": 0.0}}, r"live\.block\.kept\.e2e_s is missing"),
        (LIVE | {"plain": {"error_rate": 0.0}}, r"live\.plain\.kept\.e2e_s is missing"),
        (
            LIVE | {"block": {"error_rate": 0.0, "kept": {"e2e_s": 0.9}}},
            r"live\.block\.values\.draft_share is missing, its mean and spread",
        ),
    ],
)
def test_an_effect_that_is_missing_is_named(live, message):
    with pytest.raises(ConfigError, match=message):
        simulate(live_plan(live=live), stage="shadow")


def indicator(name, limit):
    return LATENCY | {"name": name, "limit": limit}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (
            [ERROR_METRIC | {"name": "acceptance_rate"}],
            "requests are not made up for acceptance_rate",
        ),
        (
            [indicator("e2e_s", 2.0), indicator("output_tokens_per_s", 9.0)],
            "output_tokens_per_s follows from e2e_s and tpot_s",
        ),
        (
            [indicator("e2e_s", 2.0), indicator("ttft_s", 1.0)],
            "a limit of ttft_s above 0.18 of that of e2e_s",
        ),
    ],
)
def test_numbers_that_are_tied_to_each_other_are_refused(metrics, message):
    names = [metric["name"] for metric in metrics]
    kept = {metric["name"]: 0.9 for metric in metrics if metric["transform"] == "indicator"}
    live = {arm: {"error_rate": 0.0, "kept": kept} for arm in LIVE}
    plan = live_plan(SHADOW | {"metrics": names}, metrics=[ERROR_METRIC, *metrics], live=live)

    with pytest.raises(ConfigError, match=message):
        simulate(plan, stage="shadow")


def test_a_stage_whose_metrics_only_report_has_nothing_to_simulate():
    reported = [metric | {"role": "secondary"} for metric in METRICS]

    with pytest.raises(ConfigError, match="no metric of shadow has a say"):
        simulate(live_plan(SHADOW, metrics=reported), stage="shadow")
