"""Bootstrap intervals of many simulated runs over the same draws.

`statistics.bootstrap` draws its samples of prompts from a seed that the plan fixes, so they depend
on nothing but the number of prompts. Here they are drawn once and kept as counts; the sums of all
samples are then one matrix product. Statistics, draws and methods are the same, and a test compares
the ends.

Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap (1993), eq. 14.10 (ends),
14.14 (z0) and 14.15 (acceleration).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from specdecode.governance.power_tail import weighted_quantile
from specdecode.measurement.intervals import RESAMPLES
from specdecode.statistics.bootstrap import Interval

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Draws:
    """Samples of prompts with replacement, kept by number of prompts.

    Args:
        seed: the plan's `bootstrap_seed`.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._kept: dict[int, FloatArray] = {}

    def counts(self, n: int) -> FloatArray:
        """How often each of n prompts is in each sample: whole numbers [RESAMPLES, n]."""
        if n not in self._kept:
            drawn = np.random.default_rng(self._seed).integers(0, n, (RESAMPLES, n))
            drawn += n * np.arange(RESAMPLES)[:, None]
            found = np.bincount(drawn.ravel(), minlength=RESAMPLES * n)
            self._kept[n] = found.reshape(RESAMPLES, n).astype(np.float64)
        return self._kept[n]


def mean_interval(sums: FloatArray, draws: Draws, level: float) -> Interval | None:
    """BCa interval of one sum over another; None when there is none to state.

    Args:
        sums: [2, K], of each prompt: numerator and denominator.
        draws: the samples.
        level: nominal coverage.
    """
    n = sums.shape[1]
    if n < 2:
        return None
    drawn = _over(draws.counts(n) @ sums.T)
    estimate = float(_over(sums.sum(axis=1)))
    if not (np.isfinite(estimate) and np.isfinite(drawn).all()):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = _bca_ends(sums, drawn, estimate, level)
    if np.isfinite(ends).all():
        low, high = np.quantile(drawn, ends)
        return Interval(estimate, float(low), float(high), n, level, "bca")
    return _percentile(estimate, drawn, n, level)


def ratio_interval(sums: FloatArray, draws: Draws, level: float) -> Interval | None:
    """Percentile interval of (sums[0] / sums[1]) / (sums[2] / sums[3]).

    Args:
        sums: [4, K], of each prompt.
        draws: the samples.
        level: nominal coverage.
    """
    n = sums.shape[1]
    if n < 2:
        return None
    found = draws.counts(n) @ sums.T
    whole = sums.sum(axis=1)
    drawn = _quotient(_over(found[:, :2]), _over(found[:, 2:]))
    estimate = float(_quotient(_over(whole[:2]), _over(whole[2:])))
    if not (np.isfinite(estimate) and np.isfinite(drawn).all()):
        return None
    return _percentile(estimate, drawn, n, level)


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
    return _percentile(float(ratios[0]), ratios[1:], n, level)


def _over(sums: FloatArray) -> FloatArray:
    return _quotient(sums[..., 0], sums[..., 1])


def _quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """NaN, which no interval survives, where the denominator is 0."""
    nothing = np.full(np.shape(above), np.nan)
    return np.asarray(np.divide(above, below, out=nothing, where=below != 0))


def _percentile(estimate: float, drawn: FloatArray, n: int, level: float) -> Interval:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), n, level, "percentile")


def _bca_ends(sums: FloatArray, drawn: FloatArray, estimate: float, level: float) -> FloatArray:
    """Which quantiles of the draws are the ends; NaN where the statistic never varies."""
    n = sums.shape[1]
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn <= estimate)) / 2
    shift = ndtri(below / len(drawn))
    without = _over((sums.sum(axis=1, keepdims=True) - sums).T)
    lean = (n - 1) * (without.mean() - without)
    acceleration = (lean**3).sum() / n**3 / (6 * ((lean**2).sum() / n**2) ** 1.5)
    z = shift + ndtri((1 - level) / 2) * np.array([1.0, -1.0])
    return np.asarray(ndtr(shift + z / (1 - acceleration * z)))
