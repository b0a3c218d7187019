"""What the report of the router's latency says about given times."""

from __future__ import annotations

import pytest

from pipelines.route_bench.added import added, bars, summary
from pipelines.route_bench.arms import ARMS, DIRECT, ROUTED
from pipelines.route_bench.servers import LITELLM
from tests.pipelines.route_bench_data import (
    FIRST,
    GOOD,
    JSON,
    MEDIAN,
    P99,
    WHOLE,
    rounds_of,
)


def test_a_constant_addition_is_found_though_the_machine_drifts():
    found = added(rounds_of(GOOD), "router-off", JSON)

    assert found["median"]["estimate"] == pytest.approx(0.4)
    assert (found["median"]["low"], found["median"]["high"]) == pytest.approx((0.4, 0.4))
    assert found["p99_minus_p99"]["estimate"] == pytest.approx(0.4)
    # From the median of 5 to 6 ms to their 99th percentile it is 0.49 ms.
    assert found["p99"]["estimate"] == pytest.approx(0.89)
    assert found["p99"]["rounds"] == 4


def test_rounds_that_differ_have_an_interval_of_student_s_t():
    rounds = rounds_of(GOOD, rounds=2)
    for reply in rounds[1]["blocks"]:
        if reply["arm"] == "router-off":
            reply["total_s"] = [t + 0.0002 for t in reply["total_s"]]

    found = added(rounds, "router-off", JSON)["median"]

    # Two rounds of 0.4 and 0.6: mean 0.5, standard error 0.1, t quantile 12.706.
    assert found["estimate"] == pytest.approx(0.5)
    assert found["high"] - found["estimate"] == pytest.approx(1.2706, abs=1e-3)


def test_first_bytes_and_the_end_of_a_stream_are_told_apart():
    rounds = rounds_of({DIRECT: 0.0, "router-off": 2.0})
    for each in rounds:
        for reply in each["blocks"]:
            if reply["arm"] == "router-off":
                reply["first_s"] = [t - 0.001 for t in reply["first_s"]]

    assert added(rounds, "router-off", FIRST)["median"]["estimate"] == pytest.approx(1)
    assert added(rounds, "router-off", WHOLE)["median"]["estimate"] == pytest.approx(2)


def test_everything_is_met_by_a_fast_router():
    found = summary(rounds_of(GOOD))

    assert len(found["bars"]) == 5 * len(ROUTED)
    assert all(bar["met"] for bar in found["bars"])
    assert {p["arm"] for p in found["points"]} == set(ARMS)
    assert len(found["points"]) == 3 * len(ARMS)
    assert found["beside_litellm"][0]["median"]["estimate"] == pytest.approx(-2.6)
    shadow = next(p for p in found["points"] if p["arm"] == "router-shadow")
    assert shadow["cpu_ms_per_request"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"router-off": 1.6}, MEDIAN),
        ({"router-off": 9.0}, P99),
        ({LITELLM: 0.3}, "median not above LiteLLM's"),
    ],
    ids=["median", "p99", "litellm"],
)
def test_what_is_missed_is_said(changes, missed):
    found = summary(rounds_of(GOOD | changes))["bars"]

    assert ("router-off", missed) in {(b["arm"], b["what"]) for b in found if not b["met"]}


def test_the_limits_are_for_the_highest_rate_and_litellm_for_all():
    rounds = rounds_of(GOOD, rates=(20.0, 100.0))
    for each in rounds:
        for reply in each["blocks"]:
            if (reply["arm"], reply["rate"]) == ("router-off", 20.0):
                reply["total_s"] = [t + 0.008 for t in reply["total_s"]]

    found = summary(rounds)

    missed = [(b["arm"], b["what"]) for b in found["bars"] if not b["met"]]
    assert missed == [("router-off", "median not above LiteLLM's")]
    assert [p["rate"] for p in found["points"]] == [100.0] * 18 + [20.0] * 18


def test_a_slow_beginning_of_a_stream_alone_misses_the_limit():
    rounds = rounds_of(GOOD)
    for each in rounds:
        for reply in each["blocks"]:
            if (reply["arm"], reply["kind"]) == ("router-off", "stream"):
                reply["first_s"] = [t + 0.002 for t in reply["first_s"]]

    missed = {(b["arm"], b["what"]) for b in summary(rounds)["bars"] if not b["met"]}

    assert ("router-off", MEDIAN) in missed


def test_a_shadow_without_copies_is_not_a_fast_one():
    rounds = rounds_of(GOOD)
    for each in rounds:
        for reply in each["blocks"]:
            if (reply["arm"], reply["kind"]) == ("router-shadow", "stream"):
                reply["candidate_requests"] = 0

    missed = [b for b in summary(rounds)["bars"] if not b["met"]]

    assert [(b["arm"], b["high"]) for b in missed] == [("router-shadow", 1.0)]


def test_one_error_is_one_too_many():
    rounds = rounds_of(GOOD)
    rounds[0]["blocks"][2]["errors"] = {"HTTP 502": 1}
    arm = rounds[0]["blocks"][2]["arm"]

    missed = [(b["arm"], b["what"]) for b in summary(rounds)["bars"] if not b["met"]]

    assert missed == [(arm, "no errors")]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rounds": 1}, "one round: no interval"),
        ({"replies": 50}, "no round with 100 good replies"),
    ],
    ids=["one-round", "few-replies"],
)
def test_without_an_interval_nothing_is_met(options, why):
    rounds = rounds_of(GOOD, **options)

    found = added(rounds, "router-off", JSON)["p99"]

    assert (found["low"], found["high"], found["why"]) == (None, None, why)
    p99 = [b for b in summary(rounds)["bars"] if b["what"].startswith("p99")]
    assert p99 and not any(bar["met"] for bar in p99)


def test_without_litellm_nothing_is_said_to_be_as_fast():
    found = summary(rounds_of({name: ms for name, ms in GOOD.items() if name != LITELLM}))

    assert found["beside_litellm"] == []
    assert [b["met"] for b in found["bars"] if "LiteLLM" in b["what"]] == [False] * len(ROUTED)


def test_without_replies_there_is_no_number_and_nothing_is_met():
    rounds = rounds_of({DIRECT: 0.0, "router-off": 0.0})
    for each in rounds:
        for reply in each["blocks"]:
            reply["total_s"] = [None] * len(reply["total_s"])

    found = summary(rounds)

    assert all(p["median_ms"] is None for p in found["points"])
    times = [b for b in found["bars"] if "added" in b["what"] or "LiteLLM" in b["what"]]
    assert len(times) == 3 and not any(bar["met"] for bar in times)
    assert bars([], []) == []
