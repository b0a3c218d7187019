"""Bootstrap intervals of the tails of many simulated runs over the same draws.

`statistics.bootstrap` draws its samples of prompts from a seed that the plan fixes, so they depend
on nothing but the number of prompts. Here they are drawn once and kept as counts: a sample is a row
of weights over prompts, and the quantiles of all samples fall out of one cumulative sum over the
sorted values. Statistic, draws and method are the same, and a test compares the ends.

Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap (1993), eq. 14.10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.measurement.intervals import RESAMPLES
from specdecode.statistics.interval import Interval

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Whole = npt.NDArray[np.integer[Any]]


class Draws:
    """Samples of prompts with replacement, kept by number of prompts.

    Args:
        seed: the plan's `bootstrap_seed`.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._kept: dict[int, FloatArray] = {}

    def counts(self, n: int) -> FloatArray:
        """How often each of n prompts is in each sample: whole numbers [RESAMPLES, n]."""
        if n not in self._kept:
            drawn = np.random.default_rng(self.seed).integers(0, n, (RESAMPLES, n))
            drawn += n * np.arange(RESAMPLES)[:, None]
            found = np.bincount(drawn.ravel(), minlength=RESAMPLES * n)
            self._kept[n] = found.reshape(RESAMPLES, n).astype(np.float64)
        return self._kept[n]


def quantile_interval(
    values: FloatArray, clusters: IntArray, quantile: float, draws: Draws, level: float
) -> Interval | None:
    """Percentile interval of a quantile over the same quantile of paired values.

    Args:
        values: [2, n], above and below.
        clusters: [n], 0..K-1, prompt of each pair.
        quantile: such as 0.95.
        draws: the samples.
        level: nominal coverage.
    """
    n = int(clusters.max(initial=-1)) + 1
    if n < 2:
        return None
    weights = np.vstack([np.ones(n), draws.counts(n)]).astype(np.int32)
    above, below = (weighted_quantile(row, clusters, weights, quantile) for row in values)
    ratios = above / below
    low, high = np.quantile(ratios[1:], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(ratios[0]), float(low), float(high), n, level, "percentile")


def weighted_quantile(
    values: FloatArray, clusters: Whole, weights: Whole, quantile: float
) -> FloatArray:
    """Quantiles of resamples, as `numpy.quantile` has them of the repeated values.

    Args:
        values: [n].
        clusters: [n], 0..K-1.
        weights: [B, K], how often each cluster was drawn; no row is all 0.
        quantile: in [0, 1]; linear between order statistics.

    Returns:
        [B].
    """
    order = np.argsort(values, kind="stable")
    chosen = np.ascontiguousarray(weights.T)[clusters[order]]
    reached = np.cumsum(chosen, axis=0, dtype=weights.dtype)  # draws among the smallest 1..n
    place = (reached[-1] - 1) * quantile
    below = np.floor(place)
    ends = [
        values[order][np.count_nonzero(reached <= rank.astype(weights.dtype), axis=0)]
        for rank in (below, np.minimum(below + 1, reached[-1] - 1))
    ]
    return np.asarray(ends[0] + (place - below) * (ends[1] - ends[0]))
