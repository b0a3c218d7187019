"""Saturation: found where it is planted and only there, unknown where nobody can say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.load.arrivals import Gamma
from specdecode.workload.load.saturation import (
    BLOCKS,
    LEAST_REQUESTS,
    client_saturation,
    server_saturation,
    slope,
)
from specdecode.workload.load.window import in_flight, over_time, peak_in_flight


def queue(rate, service_s, n=300, seed=0, workers=1):
    """Details of requests to a queue: constant service time, Poisson arrivals, first come first."""
    free = np.zeros(workers)
    rows = []
    for due, _ in zip(Gamma(rate).times(seed), range(n), strict=False):
        worker = int(free.argmin())
        start = max(due, free[worker])
        free[worker] = start + service_s
        rows.append(detail(due, start + service_s / 2, start + service_s))
    return rows


def detail(due, first, ended, *, lag=0.0, error_class=None, output_tokens=3):
    return {
        "due_s": due,
        "sent_s": due + lag,
        "first_s": first,
        "ended_s": ended,
        "lag_s": lag,
        "status": "ok" if error_class is None else "failed",
        "error_class": error_class,
        "output_tokens": output_tokens,
    }


@settings(max_examples=25, deadline=None)
@given(st.floats(1.3, 5), st.integers(0, 1000))
def test_more_arrivals_than_service_is_saturation(load_factor, seed):
    found = server_saturation(queue(load_factor / 0.1, 0.1, seed=seed), open_loop=True)
    assert found.state == "saturated"
    assert "backlog grew" in found.reasons[0]


def test_a_server_with_room_is_hardly_ever_called_saturated():
    # 200 runs at half load: a rate of false alarms above 3 % would show in most of them.
    states = [
        server_saturation(queue(5.0, 0.1, seed=seed), open_loop=True).state for seed in range(200)
    ]
    assert states.count("saturated") <= 6
    assert "unknown" not in states


def test_scale_of_time_makes_no_difference():
    for factor in (0.01, 1.0, 100.0):
        rows = queue(15.0 / factor, 0.1 * factor, seed=3)
        assert server_saturation(rows, open_loop=True).state == "saturated"


def test_too_few_or_clumped_requests_are_unknown_and_not_fine():
    few = queue(50.0, 0.1, n=LEAST_REQUESTS - 1)
    clumped = [detail(0.0, 1.0, 2.0) for _ in range(100)]
    gap = [detail(t / 100 + (5 if t > 50 else 0), 9.0, 9.0) for t in range(100)]

    for rows in (few, clumped, gap, []):
        assert server_saturation(rows, open_loop=True).state == "unknown"


@pytest.mark.parametrize("kind", ["http-429", "deadline", "idle-timeout"])
@pytest.mark.parametrize("open_loop", [True, False])
def test_refusing_or_not_answering_is_saturation_in_any_loop(kind, open_loop):
    rows = queue(1.0, 0.1, n=97) + [
        detail(97.0 + t, None, 99.0 + t, error_class=kind) for t in range(3)
    ]
    assert server_saturation(rows, open_loop=open_loop).state == "saturated"


def test_a_closed_loop_has_no_backlog_to_grow():
    assert server_saturation(queue(50.0, 0.1), open_loop=False).state == "does not apply"


def test_replies_that_never_began_count_as_waits():
    rows = queue(30.0, 0.1, seed=1)
    for row in rows[200:]:
        row["first_s"] = None
    assert server_saturation(rows, open_loop=True).state == "saturated"


@pytest.mark.parametrize(
    ("late", "slow", "state"),
    [(0, 0, "not saturated"), (1, 1, "not saturated"), (2, 0, "saturated"), (0, 2, "saturated")],
)
def test_a_client_is_saturated_when_more_than_one_in_a_hundred_is_late(late, slow, state):
    rows = [detail(0.0, 1.0, 2.0, lag=0.2 if n < late else 0.001) for n in range(100)]
    beats = [0.2] * slow + [0.001] * (100 - slow)
    assert client_saturation(rows, beats, 0.05).state == state


def test_without_beats_or_requests_nobody_knows():
    rows = [detail(0.0, 1.0, 2.0)]
    assert client_saturation(rows, [], 0.05).state == "unknown"
    assert client_saturation([], [0.0] * 100, 0.05).state == "unknown"


@settings(deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=30))
def test_the_slope_is_that_of_numpy(values):
    values = np.array(values)
    rise, low = slope(values)
    expected = np.polyfit(np.linspace(-0.5, 0.5, len(values)), values, 1)[0]

    assert rise == pytest.approx(expected, abs=1e-6)
    assert low <= rise + 1e-9


def test_the_interval_of_the_slope_is_that_of_scipy():
    from scipy import stats

    values = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 6.5])
    found = stats.linregress(np.linspace(-0.5, 0.5, 6), values)
    low = found.slope - stats.t.ppf(0.975, 4) * found.stderr

    assert slope(values) == (pytest.approx(found.slope), pytest.approx(low))


spans = st.lists(st.tuples(st.floats(0, 50), st.floats(0.001, 20)), min_size=1, max_size=40)


@settings(deadline=None)
@given(spans, st.integers(1, 20))
def test_time_in_flight_is_neither_lost_nor_invented(pairs, bins):
    sent = np.array([start for start, _ in pairs])
    ended = sent + np.array([length for _, length in pairs])
    edges = np.linspace(0, 80, bins + 1)
    mean = in_flight(sent, ended, edges)

    assert (mean * np.diff(edges)).sum() == pytest.approx((ended - sent).sum())
    assert mean.max() <= peak_in_flight(sent, ended) + 1e-9


@settings(deadline=None)
@given(spans)
def test_the_peak_is_found_at_one_of_the_sendings(pairs):
    sent = np.array([start for start, _ in pairs])
    ended = sent + np.array([length for _, length in pairs])
    brute = max(int(((sent <= at) & (ended > at)).sum()) for at in sent)

    assert peak_in_flight(sent, ended) == brute


@settings(deadline=None)
@given(st.floats(0.5, 5000))
def test_bins_hold_every_request_once(duration):
    rows = [detail(duration * f, duration * f, duration * f) for f in (0.0, 0.3, 0.7, 1.0)]
    bins = over_time(rows, duration)

    assert len(bins) <= 61
    assert sum(b["ok"] for b in bins) == sum(b["due"] for b in bins) == 4
    assert sum(b["output_tokens_of_replies_ended"] for b in bins) == 12


def test_blocks_leave_degrees_of_freedom():
    assert BLOCKS > 3
