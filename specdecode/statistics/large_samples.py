"""Intervals over very many clusters, where drawing samples would take minutes and add nothing.

Two closed forms that a bootstrap converges to, without random draws:

* `abc_limits`, for smooth functions of means: the ABC interval, an analytic approximation to BCa of
  the same second-order accuracy. T. J. DiCiccio and B. Efron, "More accurate confidence intervals
  in exponential families", Biometrika 79 (1992); the algorithm as in B. Efron and R. J. Tibshirani,
  "An Introduction to the Bootstrap" (1993), section 22.6 (`abcnon`).
* `quantile_ratio_limits`, for quantiles: linearised with the density read off Woodruff's interval.
  R. S. Woodruff, JASA 47 (1952); C. A. Francisco and W. A. Fuller, Annals of Statistics 19 (1991).

That they meet the bootstrap where it hands over to them is tested at that very size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_FEWEST_INFORMED = 25
"""Clusters with something in the denominator, under which a bootstrap sample may have none."""


def abc_limits(
    sums: FloatArray, function: Callable[[FloatArray], float], level: float
) -> tuple[float, float] | None:
    """Ends of the interval of a smooth function of the clusters' mean sums.

    Args:
        sums: [d, K], d totals of each of K clusters; centred in place, for a copy would be large.
        function: of the d means; NaN where it has no value.
        level: two-sided coverage.

    Returns:
        Lower and upper end; None where the function has no value nearby.
    """
    k = sums.shape[1]
    mean = sums.mean(axis=1)
    apart = sums
    apart -= mean[:, None]
    covariance = apart @ apart.T / k
    spread = np.sqrt(np.diag(covariance))
    step = np.maximum(1e-2 * spread / math.sqrt(k), 1e-6 * np.abs(mean)) + 1e-300
    value = function(mean)

    def moved(*by: tuple[int, float]) -> float:
        shifted = mean.copy()
        for axis, steps in by:
            shifted[axis] += steps * step[axis]
        return function(shifted)

    axes = range(len(mean))
    gradient = np.array([(moved((i, 1)) - moved((i, -1))) / (2 * step[i]) for i in axes])
    curvature = np.array(
        [(moved((i, 1)) - 2 * value + moved((i, -1))) / step[i] ** 2 for i in axes]
    )
    influence = gradient @ apart
    sigma = math.sqrt(float(influence @ influence)) / k
    if not math.isfinite(sigma):
        return None
    if sigma <= 1e-15 * abs(value):
        return value, value
    acceleration = float((influence**3).sum()) / (6 * k**3 * sigma**3)
    direction = covariance @ gradient / (k * sigma)  # where the means move in the worst case
    up, down = function(mean + 1e-2 * direction), function(mean - 1e-2 * direction)
    quadratic = (up - 2 * value + down) / (2 * sigma * 1e-4)
    mixed = sum(
        covariance[i, j]
        * (moved((i, 1), (j, 1)) - moved((i, 1), (j, -1)) - moved((i, -1), (j, 1))
           + moved((i, -1), (j, -1))) / (4 * step[i] * step[j])
        for i in axes for j in axes if i != j
    )  # fmt: skip
    bias = (float(curvature @ np.diag(covariance)) + mixed) / (2 * k)
    z0 = _z(2 * stats.norm.cdf(acceleration) * stats.norm.cdf(quadratic - bias / sigma))

    def end(at: float) -> float:
        w = z0 + at
        return function(mean + w / (1 - acceleration * w) ** 2 * direction)

    z = _z((1 + level) / 2)
    ends = end(-z), end(z)
    return (min(ends), max(ends)) if all(map(math.isfinite, ends)) else None


def enough_in(denominators: FloatArray) -> bool:
    """Whether enough clusters have something in the denominator, [K], for any interval."""
    return int(np.count_nonzero(denominators)) >= _FEWEST_INFORMED


def quantile_ratio_limits(
    top: FloatArray, bottom: FloatArray, codes: IntArray, quantile: float, level: float
) -> tuple[float, float, float] | None:
    """The ratio of two quantiles of paired rows, and the ends of its interval.

    Args:
        top: values above, [n].
        bottom: values below, [n].
        codes: cluster of each row, 0..K-1, [n].
        quantile: inside (0, 1).
        level: two-sided coverage.

    Returns:
        Estimate, lower and upper end; None where the quantile below is 0.
    """
    z = _z((1 + level) / 2)
    clusters = int(codes.max()) + 1
    above, of_top = _linearised(top, codes, clusters, quantile, z)
    below, of_bottom = _linearised(bottom, codes, clusters, quantile, z)
    if not below:
        return None
    ratio = above / below
    influence = (of_top - ratio * of_bottom) / below
    half = z * math.sqrt(float(influence @ influence) * clusters / (clusters - 1))
    return ratio, ratio - half, ratio + half


def _linearised(
    values: FloatArray, codes: IntArray, clusters: int, quantile: float, z: float
) -> tuple[float, FloatArray]:
    """A quantile and the influence of each cluster on it, which sum to 0."""
    n = len(values)
    found = float(np.quantile(values, quantile))
    under = np.bincount(codes, weights=(values <= found) - quantile, minlength=clusters) / n
    under -= np.bincount(codes, minlength=clusters) * (under.sum() / n)
    # The share below the quantile is known up to ± reach; so the quantile lies between these two.
    reach = max(z * math.sqrt(float(under @ under)), 1.0 / n)
    low, high = np.quantile(values, [max(0.0, quantile - reach), min(1.0, quantile + reach)])
    slope = float(high - low) / (min(1.0, quantile + reach) - max(0.0, quantile - reach))
    return found, -under * slope


def _z(probability: float) -> float:
    return float(stats.norm.ppf(probability))
