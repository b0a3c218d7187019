"""Schedules: their law, and that they are the same every time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.workload.load.arrivals import Constant, Gamma, Ramp, Replay

rates = st.floats(0.01, 1e4)
shapes = st.floats(0.05, 50)
seeds = st.integers(0, 2**63 - 1)


def first(arrivals, n, seed=0):
    return list(itertools.islice(arrivals.times(seed), n))


@settings(deadline=None)
@given(rates, shapes, seeds)
def test_the_same_seed_gives_the_same_times_and_they_never_decrease(rate, burstiness, seed):
    times = first(Gamma(rate, burstiness), 50, seed)

    assert times == first(Gamma(rate, burstiness), 50, seed)
    assert times == sorted(times)
    assert times[0] >= 0


@settings(deadline=None)
@given(rates, shapes, st.integers(0, 2**62))
def test_another_seed_gives_other_times(rate, burstiness, seed):
    assert first(Gamma(rate, burstiness), 5, seed) != first(Gamma(rate, burstiness), 5, seed + 1)


@settings(deadline=None)
@given(rates, st.floats(0.1, 10), seeds)
def test_the_rate_only_scales_the_times(rate, factor, seed):
    slow, fast = first(Gamma(rate), 20, seed), first(Gamma(rate * factor), 20, seed)

    assert np.allclose(np.array(slow), np.array(fast) * factor, rtol=1e-9)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gaps_follow_the_gamma_law_of_their_burstiness(burstiness):
    # 4 000 gaps of one fixed seed: a wrong shape or scale gives p far below 1e-6.
    gaps = np.diff([0.0, *first(Gamma(5.0, burstiness), 4000, seed=3)])

    law = stats.gamma(burstiness, scale=1 / (5.0 * burstiness))
    assert stats.kstest(gaps, law.cdf).pvalue > 1e-3
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.08)


def test_burstiness_one_is_poisson():
    gaps = np.diff([0.0, *first(Gamma(2.0), 4000, seed=9)])

    assert stats.kstest(gaps, stats.expon(scale=0.5).cdf).pvalue > 1e-3


@settings(deadline=None)
@given(rates, st.integers(0, 10_000))
def test_constant_arrivals_do_not_drift(rate, index):
    (time,) = itertools.islice(Constant(rate).times(0), index, index + 1)

    assert time == index / rate


@settings(deadline=None)
@given(st.floats(0, 100), st.floats(0.01, 100), st.floats(0.1, 1000), seeds)
def test_a_ramp_never_goes_back_and_keeps_its_seed(rate, final, duration, seed):
    ramp = Ramp(rate, final, duration)
    times = first(ramp, 60, seed)

    assert times == sorted(times)
    assert times == first(ramp, 60, seed)


@settings(deadline=None)
@given(st.floats(0, 50), st.floats(0.01, 50), st.floats(1, 100), st.floats(0, 200))
def test_a_ramp_inverts_its_own_expected_count(rate, final, duration, until):
    ramp = Ramp(rate, final, duration)

    assert ramp._when(ramp.expected(until)) == pytest.approx(until, rel=1e-6, abs=1e-3) or (
        rate == 0 and ramp.expected(until) < 1e-6
    )


def test_a_ramp_has_the_number_of_arrivals_of_its_area():
    # Λ = (0 + 40)/2 · 100 s = 2 000 in the ramp, 500 of them in its first half: 5 σ is 224 and 112.
    times = np.array(list(itertools.takewhile(lambda t: t < 100, Ramp(0, 40, 100).times(1))))

    assert abs(len(times) - 2000) < 224
    assert abs((times < 50).sum() - 500) < 112


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30), st.floats(0.1, 100))
def test_a_replay_keeps_the_gaps_of_its_trace(stamps, speed_up):
    stamps = sorted(stamps)
    times = list(Replay(stamps, speed_up).times(0))

    assert times == [(stamp - stamps[0]) / speed_up for stamp in stamps]


def test_a_trace_that_goes_back_is_refused_by_its_place():
    with pytest.raises(ConfigError, match=r"trace request 3: .* sort the trace"):
        list(Replay([1.0, 3.0, 2.0]).times(0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gamma(0),
        lambda: Gamma(1, 0),
        lambda: Gamma(float("nan")),
        lambda: Constant(-1),
        lambda: Constant(float("inf")),
        lambda: Ramp(-1, 1, 1),
        lambda: Ramp(1, 0, 1),
        lambda: Ramp(1, 1, 0),
        lambda: Replay([], 0),
    ],
)
def test_impossible_arrivals_are_refused(make):
    with pytest.raises(ConfigError, match="arrivals"):
        make()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_arrivals_are_endless(seed):
    assert len(first(Gamma(1.0), 1000, seed)) == 1000
