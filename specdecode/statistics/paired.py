"""Paired differences of two arms as numbers in [0, 1], one per conversation.

With a and b in known bounds [low, high] and the better values the larger ones,

    d = ((a - b) / (high - low) + 1) / 2,     E[a - b] <= -margin  iff  E[d] <= m0,
    m0 = (1 - margin / (high - low)) / 2.

So "a is worse than b by the margin or more" is rejected by a bet on a large mean (non-inferiority),
and "a is worse by less than the margin" by a bet on a small one (harm); both at the same m0, by
`betting`. Tokens of one reply, and turns or repeats of one conversation, are correlated: each
conversation gives one value, the mean over its pairs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specdecode.errors import ConfigError
from specdecode.statistics.betting import DEFAULT_CAP, betting_test
from specdecode.statistics.clusters import partition
from specdecode.statistics.sequential import FloatArray, SequentialTest

Bounds = tuple[float, float]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class PairedDifferences:
    """One value per cluster, and a count of everything that gave none.

    Attributes:
        values: float [K], in [0, 1], in order of each cluster's first pair; 1/2 is no difference,
            more is better for the first arm.
        bounds: the bounds of the metric.
        pairs: pairs of rows given.
        missing_first: pairs in which only the first arm has no value.
        missing_second: pairs in which only the second arm has none.
        missing_both: pairs in which neither has one.
        empty_clusters: clusters that give no value because none of their pairs is complete.
    """

    values: FloatArray
    bounds: Bounds
    pairs: int
    missing_first: int
    missing_second: int
    missing_both: int
    empty_clusters: int

    @property
    def missing(self) -> int:
        """Pairs that gave no difference."""
        return self.missing_first + self.missing_second + self.missing_both

    @property
    def mean_difference(self) -> float | None:
        """Mean over clusters in the unit of the metric, positive if the first arm is better.

        None without clusters.
        """
        if not len(self.values):
            return None
        low, high = self.bounds
        return float((2 * self.values.mean() - 1) * (high - low))


def paired_differences(
    first: Sequence[float | None],
    second: Sequence[float | None],
    *,
    bounds: Bounds = (0.0, 1.0),
    better: Better = "higher",
    clusters: Sequence[Hashable] | None = None,
) -> PairedDifferences:
    """Maps pairs of values to one number in [0, 1] per cluster.

    Args:
        first: the arm under judgement, one value per row; None (or NaN) where there is none.
        second: the arm it is compared with, paired row by row.
        bounds: lowest and highest possible value, fixed before the data.
        better: whether higher or lower values of the metric are better.
        clusters: conversation of each row; None when every row is one of its own.

    Raises:
        ConfigError: unequal lengths, impossible bounds, a value outside them, a missing cluster.
    """
    low, high = _checked_bounds(bounds)
    if len(first) != len(second):
        raise ConfigError(
            f"the arms have {len(first)} and {len(second)} values: they must be paired row by row"
        )
    codes = partition(len(first), clusters)
    a, b = (_values(name, arm, low, high) for name, arm in (("first", first), ("second", second)))
    no_a, no_b = np.isnan(a), np.isnan(b)
    whole = ~(no_a | no_b)
    gain = a - b if better == "higher" else b - a
    # The clip only undoes rounding: the bounds were checked.
    unit = np.clip((gain[whole] / (high - low) + 1) / 2, 0, 1)
    size = int(codes.max(initial=-1)) + 1
    counts = np.bincount(codes[whole], minlength=size)
    sums = np.bincount(codes[whole], weights=unit, minlength=size)
    filled = counts > 0
    return PairedDifferences(
        values=np.clip(sums[filled] / counts[filled], 0, 1),
        bounds=(low, high),
        pairs=len(first),
        missing_first=int((no_a & ~no_b).sum()),
        missing_second=int((no_b & ~no_a).sum()),
        missing_both=int((no_a & no_b).sum()),
        empty_clusters=int((~filled).sum()),
    )


def threshold(margin: float, *, bounds: Bounds = (0.0, 1.0)) -> float:
    """m0, the mean of d at which the first arm is worse by exactly the margin.

    Args:
        margin: in the unit of the metric; at least 0 and less than the width of the bounds. Fixed
            before the data.
        bounds: lowest and highest possible value of the metric.
    """
    low, high = _checked_bounds(bounds)
    if not 0 <= margin < high - low:
        raise ConfigError(f"margin {margin} must be at least 0 and below {high - low}, the range")
    return (1 - margin / (high - low)) / 2


def non_inferiority_test(
    differences: PairedDifferences,
    margin: float,
    *,
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
    population: int | None = None,
) -> SequentialTest:
    """Tests H0: the first arm is worse by the margin or more. Rejecting it permits.

    Args:
        differences: one value per cluster, in the recorded random order.
        margin: see `threshold`.
        alpha: level of the test.
        cap: largest share of the wealth at risk per value. Differences that vary little, as those
            of well-paired arms do, are judged sooner at 0.75.
        population: number of clusters in the finite set they are drawn from, or None.
    """
    m0 = threshold(margin, bounds=differences.bounds)
    return betting_test(
        differences.values, m0, side="greater", alpha=alpha, cap=cap, population=population
    )


def harm_test(
    differences: PairedDifferences,
    margin: float,
    *,
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
    population: int | None = None,
) -> SequentialTest:
    """Tests H0: the first arm is worse by the margin at most. Rejecting it is an alarm.

    Arguments as in `non_inferiority_test`.
    """
    m0 = threshold(margin, bounds=differences.bounds)
    return betting_test(
        differences.values, m0, side="less", alpha=alpha, cap=cap, population=population
    )


def _checked_bounds(bounds: Bounds) -> Bounds:
    low, high = (float(end) for end in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"bounds must be two finite numbers, the lower first, not {bounds}")
    return low, high


def _values(name: str, arm: Sequence[float | None], low: float, high: float) -> FloatArray:
    """Numbers [n], NaN where a value is missing."""
    data = np.array([np.nan if value is None else value for value in arm], dtype=np.float64)
    outside = (data < low) | (data > high)
    if outside.any():
        row = int(np.argmax(outside))
        raise ConfigError(
            f"{name} arm, row {row}: {data[row]} lies outside the declared bounds [{low}, {high}]"
        )
    return data
