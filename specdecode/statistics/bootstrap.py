"""Bootstrap intervals for paired arms, resampling whole prompts.

Tokens of one reply, and repeats of one prompt, are correlated; so clusters (prompts) are drawn with
replacement, never single rows. Right only asymptotically, hence too narrow over few prompts: alarms
on tails use it, where nothing better is at hand, and so does the bench. What must be shown is
judged by `jackknife` and `betting_interval`. Valid for one look at a sample whose size was fixed
before, not for repeated looks (see `betting`).

Source: B. Efron, "Better bootstrap confidence intervals", JASA 82 (1987), as implemented in
`scipy.stats.bootstrap`. For quantiles above `MOST_DRAWN` clusters the closed form of
`large_samples` takes over, which needs no draws.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.clusters import (
    Clusters,
    FloatArray,
    IntArray,
    Values,
    aligned,
    cluster_sums,
    partition,
)
from specdecode.statistics.interval import Interval
from specdecode.statistics.large_samples import quantile_ratio_limits

Method = Literal["bca", "percentile"]

MOST_DRAWN = 4096
"""Clusters up to which quantiles are drawn, one sample after the other."""

# Rows of the [resamples, clusters] index matrix are made in blocks of about this many entries.
_BLOCK_ENTRIES = 4_000_000


def paired_ratio_interval(
    numerator: Values,
    denominator: Values,
    *,
    clusters: Clusters | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
    method: Method = "bca",
) -> Interval | None:
    """Interval of the ratio of sums, sum(numerator) / sum(denominator), over resampled prompts.

    The ratio of sums weighs each prompt by its size; it is not the mean of per-prompt ratios.

    Args:
        numerator: one value per row, for example seconds of the plain arm.
        denominator: the paired value of the same row, at least 0.
        clusters: prompt of each row; None when every row is a prompt of its own.
        level: nominal coverage.
        resamples: number of bootstrap draws.
        seed: seed of the draws; the same seed gives the same interval.
        method: "bca" (bias-corrected and accelerated) or "percentile".

    Returns:
        The interval, or None when it cannot be stated: fewer than two clusters, or a denominator
        that is 0 in total or in some resample.

    Raises:
        ConfigError: unequal lengths, missing or non-finite values, negative denominators.
    """
    top, bottom = aligned({"numerator": numerator, "denominator": denominator})
    if (bottom < 0).any():
        row = int(np.argmax(bottom < 0))
        raise ConfigError(f"denominator of row {row} is negative: {bottom[row]}")
    codes = partition(len(top), clusters)
    tops, bottoms = cluster_sums(top, codes), cluster_sums(bottom, codes)

    def ratio(index: IntArray, axis: int = -1) -> FloatArray:
        return _quotient(tops[index].sum(axis=axis), bottoms[index].sum(axis=axis))

    return _interval(len(tops), ratio, level, resamples=resamples, seed=seed, method=method)


def paired_quantile_ratio_interval(
    numerator: Values,
    denominator: Values,
    quantile: float,
    *,
    clusters: Clusters | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Interval | None:
    """Interval of quantile(numerator) / quantile(denominator), for p50 or p95. Report only.

    Quantiles are not smooth, so the percentile method is used and coverage is rough in the tails;
    decisions belong on an indicator ("latency at most the limit") or a quantile sequence.

    Args:
        numerator: one value per row.
        denominator: the paired value of the same row.
        quantile: 0.5 for the median, 0.95 for p95.
        clusters: prompt of each row; None when every row is a prompt of its own.
        level: nominal coverage.
        resamples: number of bootstrap draws.
        seed: seed of the draws.

    Returns:
        The interval, or None when there are fewer than two clusters or a quantile of the
        denominator is 0.
    """
    if not 0 < quantile < 1:
        raise ConfigError(f"quantile must lie inside (0, 1), not {quantile}")
    top, bottom = aligned({"numerator": numerator, "denominator": denominator})
    codes = partition(len(top), clusters)
    if (n := int(codes.max(initial=-1)) + 1) > MOST_DRAWN:
        _check(level, resamples)
        found = quantile_ratio_limits(top, bottom, codes, quantile, level)
        return None if found is None else Interval(*found, n, level, "woodruff")
    members = [np.flatnonzero(codes == code) for code in range(n)]

    def ratio(index: IntArray, axis: int = -1) -> FloatArray:
        def one(draw: IntArray) -> float:
            rows = np.concatenate([members[int(code)] for code in draw])
            below = float(np.quantile(bottom[rows], quantile))
            return float(np.quantile(top[rows], quantile)) / below if below else float("nan")

        return np.asarray(np.apply_along_axis(one, axis, index), dtype=np.float64)

    return _interval(n, ratio, level, resamples=resamples, seed=seed, method="percentile")


def _quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """NaN, which no interval survives, where the denominator is 0."""
    nothing = np.full(np.shape(above), np.nan)
    return np.asarray(np.divide(above, below, out=nothing, where=below != 0))


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must lie inside (0, 1), not {level}")
    if resamples < 1:
        raise ConfigError(f"resamples must be at least 1, not {resamples}")


def _interval(
    n: int,
    statistic: Callable[..., FloatArray],
    level: float,
    *,
    resamples: int,
    seed: int,
    method: Method,
) -> Interval | None:
    """Bootstraps cluster numbers, so that one core serves every statistic."""
    _check(level, resamples)
    if n < 2:
        return None
    everything = np.arange(n, dtype=np.int64)
    estimate = float(statistic(everything))
    if not np.isfinite(estimate):
        return None

    def run(how: str) -> tuple[float, float, FloatArray]:
        with warnings.catch_warnings():
            # Constant data have no BCa correction; scipy warns and gives NaN, handled below.
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            result = stats.bootstrap(
                (everything,),
                statistic,
                n_resamples=resamples,
                batch=max(1, _BLOCK_ENTRIES // n),
                vectorized=True,
                confidence_level=level,
                method=how,
                rng=np.random.default_rng(seed),
            )
        ends = result.confidence_interval
        return float(ends.low), float(ends.high), result.bootstrap_distribution

    used = method
    low, high, draws = run("BCa" if method == "bca" else "percentile")
    if not np.isfinite(draws).all():
        return None
    if not (math.isfinite(low) and math.isfinite(high)):
        used = "percentile"
        low, high, _ = run("percentile")
    return Interval(estimate, low, high, n, level, used)
