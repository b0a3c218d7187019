"""Student's t over prompts for ratios of sums, leaving out one prompt at a time.

For one look at a sample whose size was fixed before. A bootstrap of few clusters is too narrow: it
understates the variance by 1/K and cannot reach beyond the clusters it has, so that six prompts
which happen to be slower are an alarm at any level. Student's quantile reaches as far as the level
asks, and is exact where the clusters' contributions are normal:

    estimate  theta, a ratio of sums over all K clusters; theta_(i) the same without cluster i
    SE^2      (K - 1)/K sum_i (g(theta_(i)) - mean_j g(theta_(j)))^2,   g the identity or log
    ends      g^-1( g(theta) -+ t_{K-1, (1+level)/2} SE )

Nothing is drawn, so there is no seed, and millions of clusters take one pass. On average the
jackknife's variance is right or too large (Efron and Stein), which is the side to err on. What is
left is skewness: at K = 100 and a level of 95 %, log-normal times with sigma 0.25 make 2.5 % on one
side into 2.8 %, and a plan that promises an error leaves room for it (docs/study.md).

Source: J. W. Tukey, Annals of Mathematical Statistics 29 (1958), p. 614; R. G. Miller, "The
jackknife: a review", Biometrika 61 (1974); B. Efron and C. Stein, "The jackknife estimate of
variance", Annals of Statistics 9 (1981).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.clusters import (
    Clusters,
    FloatArray,
    Values,
    aligned,
    cluster_sums,
    partition,
)
from specdecode.statistics.interval import Interval

METHOD = "jackknife-t"


def ratio_interval(
    numerator: Values,
    denominator: Values,
    *,
    clusters: Clusters | None = None,
    level: float = 0.95,
) -> Interval | None:
    """Interval of the ratio of sums, sum(numerator) / sum(denominator), over prompts.

    The ratio of sums weighs each prompt by its size; it is not the mean of per-prompt ratios.

    Args:
        numerator: one value per row, for example tokens.
        denominator: the value of the same row, for example steps.
        clusters: prompt of each row; None when every row is a prompt of its own.
        level: nominal coverage.

    Returns:
        The interval; None when it cannot be stated: fewer than two clusters, or nothing left in a
        denominator when some cluster is left out.

    Raises:
        ConfigError: unequal lengths, or missing or non-finite values.
    """
    columns = {"numerator": numerator, "denominator": denominator}
    return of_sums(_sums(columns, clusters), level)


def ratio_of_ratios_interval(
    first: tuple[Values, Values],
    second: tuple[Values, Values],
    *,
    clusters: Clusters | None = None,
    level: float = 0.95,
) -> Interval | None:
    """Interval of one ratio of sums over another, such as a speed-up of pooled tokens per second.

    On the scale of logarithms, so that exchanging the sides inverts the interval.

    Args:
        first: numerators and denominators of the ratio above, for example tokens and seconds.
        second: the same of the ratio below, paired with `first` row by row.
        clusters: prompt of each row; None when every row is a prompt of its own.
        level: nominal coverage.

    Returns:
        The interval; None as for `ratio_interval`, or where the ratio is not positive.

    Raises:
        ConfigError: unequal lengths, or missing or non-finite values.
    """
    names = ("first numerator", "first denominator", "second numerator", "second denominator")
    columns = dict(zip(names, (*first, *second), strict=True))
    return of_sums(_sums(columns, clusters), level)


def of_sums(sums: FloatArray, level: float) -> Interval | None:
    """The same of totals per cluster.

    Args:
        sums: [2, K] for sums[0] / sums[1], or [4, K] for that over sums[2] / sums[3].
        level: nominal coverage.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level must lie inside (0, 1), not {level}")
    k = sums.shape[1]
    if k < 2:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is no number in the end
        whole = sums.sum(axis=1)
        estimate, without = _ratio(whole), _ratio(whole[:, None] - sums)
    center = estimate
    if logs := len(sums) == 4:
        with np.errstate(divide="ignore", invalid="ignore"):
            center, without = np.log(estimate), np.log(without)
    if not (np.isfinite(center) and np.isfinite(without).all()):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        without -= without.mean()
        error = math.sqrt((k - 1) / k * float(without @ without))
        reach = float(stats.t.ppf((1 + level) / 2, k - 1)) * error
        ends = np.array([center - reach, center + reach])
        if logs:
            ends = np.exp(ends)
    if not np.isfinite(ends).all():  # two prompts that far apart say nothing
        return None
    return Interval(float(estimate), float(ends[0]), float(ends[1]), k, level, METHOD)


def _ratio(sums: FloatArray) -> FloatArray:
    """NaN, which no interval survives, where a denominator is 0."""
    with np.errstate(all="ignore"):
        found = sums[0] / sums[1]
        if len(sums) == 4:
            found /= sums[2] / sums[3]
    return np.asarray(found)


def _sums(columns: dict[str, Values], clusters: Clusters | None) -> FloatArray:
    arrays = aligned(columns)
    codes = partition(len(arrays[0]), clusters)
    return np.stack([cluster_sums(array, codes) for array in arrays])
