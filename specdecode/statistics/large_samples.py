"""Tails over very many clusters, where drawing samples would take minutes and add nothing.

A closed form that the bootstrap converges to, without random draws: the quantile linearised, with
the density read off Woodruff's interval. That it meets the bootstrap where it takes over is tested
at that very size.

Source: R. S. Woodruff, JASA 47 (1952); C. A. Francisco and W. A. Fuller, Annals of Statistics 19
(1991).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from specdecode.statistics.clusters import FloatArray, IntArray


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
    z = float(stats.norm.ppf((1 + level) / 2))
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
