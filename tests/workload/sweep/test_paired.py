"""Ratios of one arm over another: the estimate, the interval, and when there is none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdecode.measurement.records import Record
from specdecode.workload.sweep.cells import Cell
from specdecode.workload.sweep.paired import NO_ROUND, ONE_ROUND, seconds_per_token, throughput
from tests.workload.sweep.simulated import cell, cells_of


def both(ratios, base=100.0):
    plain = [cell("plain", r, 1, base) for r, _ in enumerate(ratios, 1)]
    return [cell("k", r, 1, base * ratio) for r, ratio in enumerate(ratios, 1)], plain


def test_it_is_the_ratio_of_tokens_per_second():
    fast, plain = both([2.0, 2.0, 2.0])
    found = throughput(fast, plain).to_json(0.95)

    assert found["estimate"] == pytest.approx(2)
    assert found["low"] == pytest.approx(2)
    assert found["high"] == pytest.approx(2)
    assert found["rounds"] == 3
    assert found["why"] is None


def test_one_round_gives_an_estimate_and_no_interval():
    found = throughput(*both([1.5])).to_json(0.95)

    assert found["estimate"] == pytest.approx(1.5)
    assert (found["low"], found["high"], found["why"]) == (None, None, ONE_ROUND)


def test_no_round_gives_nothing():
    found = throughput([], both([1.5])[1]).to_json(0.95)

    assert (found["estimate"], found["low"], found["why"]) == (None, None, NO_ROUND)


def test_cells_that_are_not_whole_are_left_out_with_their_partners():
    fast, plain = both([2.0, 2.0, 2.0])
    fast[0] = cell("k", 1, 1, 1.0, whole=False)
    plain[1] = cell("plain", 2, 1, 1.0, whole=False)

    assert throughput(fast, plain).rounds == 1
    assert throughput(fast, plain).estimate == pytest.approx(2)


def test_rounds_are_paired_by_number_and_not_by_place():
    fast, plain = both([2.0, 2.0, 2.0])
    slow = [cell("plain", each.round, 1, 100.0 * 3**each.round) for each in plain]
    drifting = [cell("k", each.round, 1, 200.0 * 3**each.round) for each in fast]

    found = throughput(drifting[::-1], slow).to_json(0.95)
    assert found["estimate"] == pytest.approx(2)
    assert found["high"] / found["low"] == pytest.approx(1)


def test_it_is_students_t_of_the_log_ratios():
    ratios = [1.10, 1.32, 0.91, 1.13]
    found = throughput(*both(ratios)).to_json(0.95)
    logs = [math.log(ratio) for ratio in ratios]
    low, high = stats.t.interval(0.95, 3, loc=sum(logs) / 4, scale=stats.sem(logs))

    assert found["low"] == pytest.approx(math.exp(low))
    assert found["high"] == pytest.approx(math.exp(high))
    assert found["estimate"] == pytest.approx(math.exp(sum(logs) / 4))


@given(st.lists(st.floats(0.2, 5.0), min_size=2, max_size=6))
def test_exchanging_the_arms_inverts_the_interval(ratios):
    fast, plain = both(ratios)
    one, other = throughput(fast, plain).to_json(0.9), throughput(plain, fast).to_json(0.9)

    assert one["estimate"] == pytest.approx(1 / other["estimate"])
    assert one["low"] == pytest.approx(1 / other["high"])


@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_the_interval_covers_as_often_as_it_says(rounds):
    trials, missed = 2000, 0
    for seed in range(trials):
        speeds = {("k", 1): 130.0, ("plain", 1): 100.0}
        cells = cells_of(speeds, rounds, noise=0.03, drift=0.2, seed=seed)
        found = throughput(cells[:rounds], cells[rounds:]).interval(0.95)
        missed += not found.low <= 1.3 <= found.high
    assert missed / trials < 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def record(prompt, ttft, e2e, tokens, error=None):
    return Record(
        request_id=f"{prompt}/greedy/a",
        prompt_id=prompt,
        arm="a",
        stage="load",
        output_tokens=None if error else tokens,
        ttft_s=ttft,
        e2e_s=e2e,
        sampling={"name": "greedy"},
        order_index=0,
        started_at="2026-01-01T00:00:00Z",
        manifest_sha256="0" * 64,
        error=error,
    )


def test_time_per_token_is_paired_by_prompt_within_rounds():
    def of(arm, number, *records):
        return Cell(arm, number, 4, whole=True, seconds=1.0, tokens=1, records=records)

    plain = [of("plain", r, record("a", 1, 2, 11), record("b", 1, 5, 11)) for r in (1, 2)]
    fast = [of("k", 1, record("b", 1, 3, 11), record("c", 1, 9, 11)), of("k", 2)]

    found = seconds_per_token(fast, plain)
    assert found.rounds == 1  # nothing to pair in the second
    assert found.estimate == pytest.approx((2 / 10) / (4 / 10))  # b alone
