"""Goodput, cost, energy: what is unknown stays unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.load.cost import cost_of
from specdecode.workload.load.energy import Meter, Reading, joules_between, read_counters
from specdecode.workload.load.goodput import goodput, meets
from tests.measurement.factories import record

FAILED = {
    "error": "http-5xx: boom", "output_tokens": None, "output_token_ids": None, "ttft_s": None,
    "e2e_s": None, "tpot_s": None, "finish_reason": None, "output_text": None,
}  # fmt: skip
UNCOUNTED = {"output_tokens": None, "output_token_ids": None, "tpot_s": None}
ONE_TOKEN = {"output_tokens": 1, "output_token_ids": [1], "tpot_s": None}


@pytest.mark.parametrize(
    ("changes", "slo", "expected"),
    [
        ({}, {"ttft": 0.1, "tpot": 0.1, "e2e": 0.5}, True),  # the factory's own 0.1, 0.1, 0.5
        ({}, {"ttft": 0.0999}, False),
        ({}, {"e2e": 0.499}, False),
        ({}, {"ttft": 1.0, "tpot": 0.0999}, False),
        (FAILED, {"ttft": 9.0}, False),
        (ONE_TOKEN, {"tpot": 0.001}, True),
        (UNCOUNTED, {"tpot": 9.0}, None),
        (UNCOUNTED, {"tpot": 9.0, "ttft": 0.01}, False),
        (UNCOUNTED, {"ttft": 0.2}, True),
    ],
)
def test_a_request_is_good_when_it_meets_every_objective(changes, slo, expected):
    assert meets(record(**changes), slo) is expected


def test_goodput_counts_failures_and_leaves_out_planned_cancellations():
    rows = [record("a"), record("b", ttft_s=3.0, e2e_s=4.0), record("c", **UNCOUNTED)]
    rows += [record("d", **FAILED), record("e", **FAILED | {"error": "cancelled: on purpose"})]
    found = goodput(rows, 1, {"ttft": 1.0, "tpot": 1.0}, 2.0)

    assert (found["n"], found["good"], found["unjudged"]) == (4, 1, 1)
    assert found["share"] == 0.25
    assert found["share_low"] < 0.25 < found["share_high"]
    assert found["good_per_s"] == 0.5
    assert found["met"] == {"ttft": 2, "tpot": 2}


def test_no_objectives_no_goodput_and_no_requests_no_share():
    assert goodput([record()], 0, {}, 1.0) is None
    assert goodput([], 0, {"ttft": 1.0}, None)["share"] is None


def test_cost_by_hand():
    # 3.60 an hour for 100 s is 0.10; 50 000 tokens: 2 per million; 20 good requests: 0.005 each.
    found = cost_of(
        price_per_hour=3.6, currency="EUR", duration_s=100.0, useful_tokens=50_000,
        good_requests=20, joules=500.0,
    )  # fmt: skip
    assert found["per_million_useful_tokens"] == pytest.approx(2.0)
    assert found["per_request_within_slo"] == pytest.approx(0.005)
    assert found["energy"]["joules_per_useful_token"] == pytest.approx(0.01)
    assert found["energy"]["joules_per_request_within_slo"] == pytest.approx(25.0)


@pytest.mark.parametrize("missing", ["price_per_hour", "useful_tokens", "good_requests"])
@pytest.mark.parametrize("value", [None, 0])
def test_what_is_missing_is_null_and_never_free(missing, value):
    given_values = {
        "price_per_hour": 3.6, "currency": "EUR", "duration_s": 100.0, "useful_tokens": 50_000,
        "good_requests": 20, "joules": None,
    }  # fmt: skip
    if missing == "price_per_hour" and value == 0:
        return
    found = cost_of(**given_values | {missing: value})
    name = "per_million_useful_tokens" if missing == "useful_tokens" else "per_request_within_slo"
    assert found[name] is None
    assert found["energy"] == "not measured"


counter = st.integers(0, 10**9)


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_counter_that_wraps_once_is_corrected(wraps, start, used):
    start, used = start % wraps, used % wraps
    before = Reading({"package": (start, wraps)})
    after = Reading({"package": ((start + used) % wraps, wraps)})

    assert joules_between(before, after)["package"] == pytest.approx(used / 1e6)


def test_a_counter_that_goes_back_without_a_wrap_measures_nothing():
    found = metered({"gpu 0": (5, 0)}, {"gpu 0": (3, 0)}, {"gpu 0": (9, 0)})
    assert found["joules"] is None
    assert "not measured" in found["scope"]


def metered(*readings):
    left = iter(readings)
    meter = Meter(lambda: Reading(next(left)))
    for _ in readings[1:]:
        meter.update()
    return meter.total()


@settings(deadline=None)
@given(st.integers(2, 10**9), st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_a_counter_that_is_read_often_enough_may_wrap_any_number_of_times(wraps, steps):
    steps = [step % wraps for step in steps]
    values = [sum(steps[:n]) % wraps for n in range(len(steps) + 1)]
    found = metered(*({"package": (value, wraps)} for value in values))

    assert found["joules"] == pytest.approx(sum(steps) / 1e6)


def test_one_counter_that_is_lost_does_not_cost_the_others():
    found = metered(
        {"a": (0, 0), "b": (0, 0)}, {"a": (10**6, 0)}, {"a": (3 * 10**6, 0), "b": (9, 0)}
    )
    assert found["by_counter"] == {"a": 3.0}


def test_counters_are_read_from_packages_and_not_from_their_parts(tmp_path):
    for name, joules in (("intel-rapl:0", 7), ("intel-rapl:0:0", 3), ("intel-rapl:1", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text("package\n")
        (tmp_path / name / "energy_uj").write_text(f"{joules}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("100\n")
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()  # not ours to read

    found = {k: v for k, v in read_counters(tmp_path).counters.items() if k.startswith("intel")}
    assert found == {"intel-rapl:0 package": (7, 100)}
