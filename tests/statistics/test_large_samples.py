"""Closed forms of very many clusters: they meet the bootstrap at the size where they take over."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specdecode.statistics import bootstrap
from specdecode.statistics.bootstrap import (
    MOST_DRAWN,
    paired_difference_interval,
    paired_quantile_ratio_interval,
    paired_ratio_interval,
    paired_ratio_of_ratios_interval,
)
from specdecode.statistics.large_samples import abc_limits, quantile_ratio_limits

# The ends of a bootstrap of 4000 draws scatter by √(p(1−p)/4000) / φ(z) = 0.042 standard errors,
# which is 1.1 % of the width of a 95 % interval; 5 % allows for four such errors.
DRAWS, CLOSE = 4000, 0.05


def _data(seed, n=MOST_DRAWN):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 30, n).astype(float)
    plain = tokens * rng.lognormal(0, 0.5, n)
    return {
        "tokens": tokens,
        "plain": plain,
        "block": plain * rng.lognormal(-0.3, 0.4, n),
        "skewed": rng.pareto(3.5, n) + 0.1,  # no fourth moment
        "score": rng.integers(0, 2, n).astype(float),
        "other": (rng.random(n) < 0.6).astype(float),
    }


SMOOTH = {
    "ratio": lambda d, **k: paired_ratio_interval(d["block"], d["plain"], **k),
    "skewed mean": lambda d, **k: paired_ratio_interval(
        d["skewed"], np.ones(len(d["skewed"])), **k
    ),
    "speed ratio": lambda d, **k: paired_ratio_of_ratios_interval(
        (d["tokens"], d["block"]), (d["tokens"], d["plain"]), **k
    ),
    "difference": lambda d, **k: paired_difference_interval(d["score"], d["other"], **k),
    "rare": lambda d, **k: paired_ratio_interval(
        (d["skewed"] > 2).astype(float), np.ones(len(d["skewed"])), **k
    ),
}
ROUGH = {
    "median": lambda d, **k: paired_quantile_ratio_interval(d["block"], d["plain"], 0.5, **k),
    "p95": lambda d, **k: paired_quantile_ratio_interval(d["block"], d["plain"], 0.95, **k),
}


def _both(monkeypatch, interval, data, **options):
    drawn = interval(data, seed=1, **options)
    monkeypatch.setattr(bootstrap, "MOST_DRAWN", len(data["plain"]) - 1)
    closed = interval(data, seed=1, **options)
    monkeypatch.undo()
    return drawn, closed


@pytest.mark.parametrize("level", [0.9, 0.95, 0.998])
@pytest.mark.parametrize("name", SMOOTH)
def test_abc_meets_the_bootstrap_where_it_takes_over(monkeypatch, name, level):
    # Far in the tail the draws themselves are rough: only 4 of 4000 lie beyond such an end.
    close = CLOSE if level < 0.99 else 0.15
    drawn, closed = _both(monkeypatch, SMOOTH[name], _data(3), level=level, resamples=DRAWS)
    width = drawn.high - drawn.low

    assert drawn.method in ("bca", "percentile")
    assert closed.method == "abc"
    assert (closed.estimate, closed.n) == (pytest.approx(drawn.estimate, rel=1e-12), MOST_DRAWN)
    assert abs(closed.low - drawn.low) < close * width
    assert abs(closed.high - drawn.high) < close * width


@pytest.mark.parametrize("name", ROUGH)
def test_woodruff_meets_the_bootstrap_where_it_takes_over(monkeypatch, name):
    drawn, closed = _both(monkeypatch, ROUGH[name], _data(4), resamples=1000)
    width = drawn.high - drawn.low

    assert closed.method == "woodruff"
    assert closed.estimate == drawn.estimate
    # A bootstrapped quantile jumps between order statistics, and its density is an estimate.
    assert abs(closed.low - drawn.low) < 0.15 * width
    assert abs(closed.high - drawn.high) < 0.15 * width


@pytest.mark.parametrize("name", [*SMOOTH, *ROUGH])
def test_no_draws_mean_no_seed_and_no_order(name):
    interval = (SMOOTH | ROUGH)[name]
    data = _data(5, MOST_DRAWN + 1)
    order = np.random.default_rng(0).permutation(MOST_DRAWN + 1)
    mixed = {key: values[order] for key, values in data.items()}
    once, again = interval(data, seed=1), interval(mixed, seed=2)

    assert interval(data, seed=1) == interval(data, seed=9)
    assert (once.low, once.high) == pytest.approx((again.low, again.high), rel=1e-9)


def test_the_bootstrap_still_draws_at_the_border():
    data = _data(6)

    assert SMOOTH["ratio"](data, seed=1, resamples=50).method == "bca"
    assert SMOOTH["ratio"](_data(6, MOST_DRAWN + 1), seed=1, resamples=50).method == "abc"


def test_the_abc_interval_of_a_mean_is_its_textbook_value():
    """Of a mean: a = Σd³ / (6 (Σd²)^1.5), no bias, no curvature; ends at w / (1 − a w)² σ."""
    values = np.random.default_rng(1).exponential(1.0, 500)
    apart = values - values.mean()
    a = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
    sigma = math.sqrt((apart**2).sum()) / 500
    # z₀ = Φ⁻¹(2 Φ(a) Φ(0)) = a
    ends = [values.mean() + (a + z) / (1 - a * (a + z)) ** 2 * sigma for z in (-1.959964, 1.959964)]

    found = abc_limits(values[None, :].copy(), lambda mean: float(mean[0]), 0.95)

    assert found == pytest.approx(ends, rel=1e-6)


def test_rows_of_one_cluster_count_once():
    data = _data(7, MOST_DRAWN + 100)
    keys = np.arange(MOST_DRAWN + 100)
    single = paired_quantile_ratio_interval(
        data["block"], data["plain"], 0.9, clusters=keys, seed=0
    )
    double = paired_quantile_ratio_interval(
        *(np.repeat(data[name], 2) for name in ("block", "plain")),
        0.9, clusters=np.repeat(keys, 2), seed=0,
    )  # fmt: skip

    assert double.n == single.n == MOST_DRAWN + 100
    assert (double.low, double.high) == pytest.approx((single.low, single.high), rel=5e-3)


def test_constant_data_have_an_interval_of_no_width():
    ones = np.ones(MOST_DRAWN + 1)
    interval = paired_ratio_interval(3 * ones, 2 * ones, seed=0)

    assert (interval.low, interval.estimate, interval.high) == (1.5, 1.5, 1.5)


def test_a_denominator_that_a_sample_could_miss_has_no_interval():
    ones, few = np.ones(MOST_DRAWN + 1), np.zeros(MOST_DRAWN + 1)
    few[:5] = 1.0

    assert paired_ratio_interval(ones, few, seed=0) is None
    assert paired_ratio_of_ratios_interval((ones, ones), (few, ones), seed=0) is None
    assert quantile_ratio_limits(ones, few, np.arange(MOST_DRAWN + 1), 0.5, 0.95) is None


@pytest.mark.parametrize("name", ["speed ratio", "skewed mean"])
def test_intervals_cover_as_often_as_stated(monkeypatch, name):
    """500 samples of 300 at 90 %: under 86 % would be three standard errors off."""
    monkeypatch.setattr(bootstrap, "MOST_DRAWN", 2)
    truth = {"speed ratio": math.exp(0.3 - 0.08), "skewed mean": 1 / 2.5 + 0.1}[name]
    hits = 0
    for seed in range(500):
        found = SMOOTH[name](_data(seed, 300), level=0.9, seed=0)
        hits += found.low <= truth <= found.high

    assert hits >= 430
