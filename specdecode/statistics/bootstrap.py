"""Bootstrap intervals for paired arms, resampling whole prompts.

Tokens of one reply, and repeats of one prompt, are correlated; so clusters (prompts) are drawn with
replacement, never single rows. Rules of a plan decide by these intervals, so mind what they are:
right only asymptotically, hence too narrow over few prompts (the rules ask for a least number), and
valid for one look at a sample whose size was fixed before, not for repeated looks (see `betting`).

Source: B. Efron, "Better bootstrap confidence intervals", JASA 82 (1987), as implemented in
`scipy.stats.bootstrap`. Above `MOST_DRAWN` clusters the closed forms of `large_samples` take over,
which need no draws: "abc" for smooth statistics, "woodruff" for quantiles.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.large_samples import abc_limits, enough_in, quantile_ratio_limits

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Method = Literal["bca", "percentile"]
Values = Sequence[float] | FloatArray
Clusters = Sequence[Hashable] | npt.NDArray[np.integer[Any]]

MOST_DRAWN = 4096
"""Clusters up to which samples are drawn; the jackknife within BCa takes their number squared."""

# Rows of the [resamples, clusters] index matrix are made in blocks of about this many entries.
_BLOCK_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Interval:
    """A two-sided interval.

    Attributes:
        estimate: the statistic on the data as they are.
        low: lower end.
        high: upper end.
        n: number of clusters (prompts) behind it.
        level: nominal coverage, for example 0.95.
        method: how it was made: "bca", "percentile", "abc", "woodruff", "clopper-pearson", …
    """

    estimate: float
    low: float
    high: float
    n: int
    level: float
    method: str

    def to_json(self) -> dict[str, float | int | str]:
        """The fields as a JSON-safe mapping."""
        return asdict(self)


def partition(n: int, clusters: Clusters | None) -> IntArray:
    """Cluster number of each row, 0..K-1; the one place where clusters are formed.

    Args:
        n: number of rows.
        clusters: one key per row; None makes every row its own cluster.

    Returns:
        int64 [n], numbered in order of first appearance.

    Raises:
        ConfigError: a key is missing (None or NaN), or the number of keys is not n.
    """
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    if len(clusters) != n:
        raise ConfigError(f"{len(clusters)} cluster keys for {n} rows: give one key per row")
    if isinstance(clusters, np.ndarray) and np.issubdtype(clusters.dtype, np.integer):
        return _numbered(clusters)
    numbers: dict[Hashable, int] = {}
    codes = np.empty(n, dtype=np.int64)
    for row, key in enumerate(clusters):
        if key is None or (isinstance(key, float) and math.isnan(key)):
            raise ConfigError(f"row {row} has no cluster key: a missing key must not form a group")
        codes[row] = numbers.setdefault(key, len(numbers))
    return codes


def _numbered(keys: npt.NDArray[np.integer[Any]]) -> IntArray:
    steps = np.diff(keys)
    if (steps >= 0).all():
        return np.concatenate([[0], np.cumsum(steps > 0)]).astype(np.int64)[: len(keys)]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse]


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
    top, bottom = _pair(numerator, denominator, "numerator", "denominator")
    if (bottom < 0).any():
        row = int(np.argmax(bottom < 0))
        raise ConfigError(f"denominator of row {row} is negative: {bottom[row]}")
    codes = partition(len(top), clusters)
    tops, bottoms = _cluster_sums(top, codes), _cluster_sums(bottom, codes)
    if len(tops) > MOST_DRAWN:
        return _closed(np.stack([tops, bottoms]), lambda m: m[0] / m[1], (1,), level)

    def ratio(index: IntArray, axis: int = -1) -> FloatArray:
        return _quotient(tops[index].sum(axis=axis), bottoms[index].sum(axis=axis))

    return _interval(len(tops), ratio, level, resamples=resamples, seed=seed, method=method)


def paired_ratio_of_ratios_interval(
    first: tuple[Values, Values],
    second: tuple[Values, Values],
    *,
    clusters: Clusters | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Interval | None:
    """Interval of one ratio of sums over another, such as a speed-up of pooled tokens per second.

    Percentile method (Efron and Tibshirani 1993, chapter 13), resampling prompts.

    Args:
        first: numerators and denominators of the ratio above, for example tokens and seconds.
        second: the same of the ratio below, paired with `first` row by row.
        clusters: prompt of each row; None when every row is a prompt of its own.
        level: nominal coverage.
        resamples: number of bootstrap draws.
        seed: seed of the draws.

    Returns:
        The interval, or None when it cannot be stated: fewer than two clusters, or a denominator
        or the ratio below that is 0 in total or in some resample.

    Raises:
        ConfigError: unequal lengths, missing or non-finite values.
    """
    above = _pair(*first, "first numerator", "first denominator")
    below = _pair(*second, "second numerator", "second denominator")
    _pair(first[0], second[0], "first", "second")
    codes = partition(len(above[0]), clusters)
    sums = np.empty((4, int(codes.max(initial=-1)) + 1))
    for place, values in enumerate((*above, *below)):
        sums[place] = _cluster_sums(values, codes)
    if sums.shape[1] > MOST_DRAWN:
        return _closed(sums, lambda m: m[0] / m[1] / (m[2] / m[3]), (1, 2, 3), level)

    def ratio(index: IntArray, axis: int = -1) -> FloatArray:
        top, under, other_top, other_under = (part[index].sum(axis=axis) for part in sums)
        return _quotient(_quotient(top, under), _quotient(other_top, other_under))

    return _interval(
        sums.shape[1], ratio, level, resamples=resamples, seed=seed, method="percentile"
    )


def paired_difference_interval(
    first: Values,
    second: Values,
    *,
    clusters: Clusters | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
    method: Method = "bca",
) -> Interval | None:
    """Interval of the mean of (first - second) over rows, resampling prompts.

    Arguments, return value and errors are those of `paired_ratio_interval`; None when there are
    fewer than two clusters.
    """
    left, right = _pair(first, second, "first", "second")
    codes = partition(len(left), clusters)
    sums = _cluster_sums(left - right, codes)
    counts = _cluster_sums(np.ones(len(left)), codes)
    if len(sums) > MOST_DRAWN:
        return _closed(np.stack([sums, counts]), lambda m: m[0] / m[1], (1,), level)

    def mean(index: IntArray, axis: int = -1) -> FloatArray:
        return np.asarray(sums[index].sum(axis=axis) / counts[index].sum(axis=axis))

    return _interval(len(sums), mean, level, resamples=resamples, seed=seed, method=method)


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
    top, bottom = _pair(numerator, denominator, "numerator", "denominator")
    codes = partition(len(top), clusters)
    if (n := int(codes.max(initial=-1)) + 1) > MOST_DRAWN:
        _check(level, resamples)
        found = quantile_ratio_limits(top, bottom, codes, quantile, level)
        return None if found is None else Interval(*found, n, level, "woodruff")
    members = [np.flatnonzero(codes == code) for code in range(int(codes.max(initial=-1)) + 1)]

    def ratio(index: IntArray, axis: int = -1) -> FloatArray:
        def one(draw: IntArray) -> float:
            rows = np.concatenate([members[int(code)] for code in draw])
            below = float(np.quantile(bottom[rows], quantile))
            return float(np.quantile(top[rows], quantile)) / below if below else float("nan")

        return np.asarray(np.apply_along_axis(one, axis, index), dtype=np.float64)

    return _interval(
        len(members), ratio, level, resamples=resamples, seed=seed, method="percentile"
    )


def _pair(
    first: Values, second: Values, first_name: str, second_name: str
) -> tuple[FloatArray, FloatArray]:
    if len(first) != len(second):
        raise ConfigError(
            f"{first_name} has {len(first)} values and {second_name} {len(second)}: "
            "they must be paired row by row"
        )
    arrays = []
    for name, values in ((first_name, first), (second_name, second)):
        if isinstance(values, np.ndarray):
            array = np.asarray(values, dtype=np.float64)
        else:
            known = [np.nan if value is None else value for value in values]
            array = np.array(known, dtype=np.float64)
        if not np.isfinite(array).all():
            row = int(np.argmin(np.isfinite(array)))
            raise ConfigError(
                f"{name} of row {row} is missing or not finite: leave such pairs out and count them"
            )
        arrays.append(array)
    return arrays[0], arrays[1]


def _quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """NaN, which no interval survives, where the denominator is 0."""
    nothing = np.full(np.shape(above), np.nan)
    return np.asarray(np.divide(above, below, out=nothing, where=below != 0))


def _cluster_sums(values: FloatArray, codes: IntArray) -> FloatArray:
    sums = np.bincount(codes, weights=values, minlength=int(codes.max(initial=-1)) + 1)
    return sums.astype(np.float64)


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must lie inside (0, 1), not {level}")
    if resamples < 1:
        raise ConfigError(f"resamples must be at least 1, not {resamples}")


def _closed(
    sums: FloatArray,
    function: Callable[[FloatArray], Any],
    denominators: tuple[int, ...],
    level: float,
) -> Interval | None:
    """The interval of a function of mean cluster sums [d, K], which are overwritten."""
    _check(level, 1)
    estimate = float(function(sums.sum(axis=1)))
    if not all(enough_in(sums[place]) for place in denominators):
        return None
    ends = abc_limits(sums, lambda means: float(function(means)), level)
    if ends is None:
        return None
    return Interval(estimate, *ends, sums.shape[1], level, "abc")


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
