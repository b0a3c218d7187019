"""Tails of very many clusters: the closed form meets the bootstrap where it takes over."""

from __future__ import annotations

import numpy as np
import pytest

from specdecode.statistics import bootstrap
from specdecode.statistics.bootstrap import MOST_DRAWN, paired_quantile_ratio_interval
from specdecode.statistics.large_samples import quantile_ratio_limits


def _data(seed, n=MOST_DRAWN):
    rng = np.random.default_rng(seed)
    plain = rng.integers(1, 30, n) * rng.lognormal(0, 0.5, n)
    return {"plain": plain, "block": plain * rng.lognormal(-0.3, 0.4, n)}


def _tail(data, quantile, **options):
    return paired_quantile_ratio_interval(data["block"], data["plain"], quantile, **options)


@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_woodruff_meets_the_bootstrap_where_it_takes_over(monkeypatch, quantile):
    data = _data(4)
    drawn = _tail(data, quantile, seed=1, resamples=1000)
    monkeypatch.setattr(bootstrap, "MOST_DRAWN", MOST_DRAWN - 1)
    closed = _tail(data, quantile, seed=1)
    width = drawn.high - drawn.low

    assert (drawn.method, closed.method) == ("percentile", "woodruff")
    assert closed.estimate == drawn.estimate
    # A bootstrapped quantile jumps between order statistics, and its density is an estimate.
    assert abs(closed.low - drawn.low) < 0.15 * width
    assert abs(closed.high - drawn.high) < 0.15 * width


@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_no_draws_mean_no_seed_and_no_order(quantile):
    data = _data(5, MOST_DRAWN + 1)
    order = np.random.default_rng(0).permutation(MOST_DRAWN + 1)
    mixed = {key: values[order] for key, values in data.items()}
    once, again = _tail(data, quantile, seed=1), _tail(mixed, quantile, seed=2)

    assert once == _tail(data, quantile, seed=9)
    assert (once.low, once.high) == pytest.approx((again.low, again.high), rel=1e-9)


def test_rows_of_one_cluster_count_once():
    data = _data(7, MOST_DRAWN + 100)
    keys = np.arange(MOST_DRAWN + 100)
    single = _tail(data, 0.9, clusters=keys, seed=0)
    twice = {name: np.repeat(values, 2) for name, values in data.items()}
    double = _tail(twice, 0.9, clusters=np.repeat(keys, 2), seed=0)

    assert double.n == single.n == MOST_DRAWN + 100
    assert (double.low, double.high) == pytest.approx((single.low, single.high), rel=5e-3)


def test_a_quantile_of_0_below_has_no_ratio():
    ones, few = np.ones(MOST_DRAWN + 1), np.zeros(MOST_DRAWN + 1)
    few[:5] = 1.0

    assert quantile_ratio_limits(ones, few, np.arange(MOST_DRAWN + 1), 0.5, 0.95) is None
