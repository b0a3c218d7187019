"""What counts as flat memory, fixed before the first sample.

The server runs under load for a planned time. The first fifth of it is warm-up and says nothing:
caches fill, buffers find their size. The rest is cut into twelve blocks of equal length, and each
block is its median, which short peaks do not move. Memory is flat if

    slope   the upper end of the 95 % interval of the Theil-Sen slope through the blocks (Sen 1968)
            is at most the allowed growth an hour, and
    step    the median of the last quarter of the run is at most the allowed step above that of the
            second quarter: growth in one go, which a slope smooths away.

Both are about USS, the memory that would be free if the process ended: shared pages of libraries
come and go without anybody's fault. Nothing else may be left behind either: threads and open files,
once the server is idle again, are at most as many as when it was idle before.

Whether there is anything to judge comes first. Samples must reach from start to end of the planned
time, every block must have its share of them, and in every block the server must have written
tokens: one that hangs is flat as well. Too little is a failure, as is an early end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

T = TypeVar("T")

BLOCKS: Final = 12
WARM_UP: Final = 0.2
"""Share of the run that is not judged."""
COVERAGE: Final = 0.5
"""Share of the samples of a block that must be there: a busy machine may miss some."""
LEAST_SAMPLES: Final = 3
CONFIDENCE: Final = 0.95
MB: Final = 1e6


@dataclass(frozen=True)
class Rule:
    """The allowances.

    Attributes:
        mb_per_hour: growth that the interval of the slope may reach (10^6 bytes an hour).
        step_mb: growth from second to last quarter (10^6 bytes).
    """

    mb_per_hour: float = 60.0
    step_mb: float = 16.0


@dataclass(frozen=True)
class Check:
    """One part of the verdict.

    Attributes:
        name: what was looked at.
        passed: whether it is as it must be.
        found: what was seen, for people.
        wanted: what it must be.
    """

    name: str
    passed: bool
    found: str
    wanted: str


@dataclass(frozen=True)
class Series:
    """Samples of a run.

    Attributes:
        t_s: when each was taken, seconds since the load began, rising.
        uss_bytes: private memory of the server.
        tokens: tokens it had written by then; None where it did not answer.
        planned_s: how long the run should last.
        every_s: planned time between samples.
    """

    t_s: Sequence[float]
    uss_bytes: Sequence[float]
    tokens: Sequence[float | None]
    planned_s: float
    every_s: float


def judge(rule: Rule, series: Series) -> list[Check]:
    """Whether there is enough to judge, and if so whether memory is flat."""
    enough = _enough(series)
    if not enough.passed:
        return [enough]
    return [enough, _progress(series), _slope(rule, series), _step(rule, series)]


def slope_mb_per_hour(series: Series) -> tuple[float, float, float]:
    """(estimate, lower, upper end of the 95 % interval) of the growth of USS, 10^6 bytes an hour.

    Theil-Sen over the medians of the blocks; the interval is Sen's, by ranks. Blocks are long
    against what correlates neighbouring samples, which makes the interval honest.
    """
    from scipy import stats

    edges = _edges(series)
    medians = [float(np.median(block)) / MB for block in _blocks(series, series.uss_bytes)]
    hours = (edges[:-1] + edges[1:]) / 2 / 3600
    found = stats.theilslopes(medians, hours, CONFIDENCE)
    return float(found.slope), float(found.low_slope), float(found.high_slope)


def step_mb(series: Series) -> float:
    """Median USS of the last quarter of the run less that of the second, 10^6 bytes."""
    t, uss = np.asarray(series.t_s) / series.planned_s, np.asarray(series.uss_bytes)
    early, late = uss[(t >= 0.25) & (t < 0.5)], uss[t >= 0.75]
    return float(np.median(late) - np.median(early)) / MB


def _enough(series: Series) -> Check:
    length = series.planned_s * (1 - WARM_UP) / BLOCKS
    least = max(LEAST_SAMPLES, COVERAGE * length / series.every_s)
    fewest = min(len(block) for block in _blocks(series, series.uss_bytes))
    last = max(series.t_s, default=0.0)
    return Check(
        "samples",
        fewest >= least and last >= series.planned_s - length / 2,
        f"{len(series.t_s)} samples, {fewest} in the emptiest block, the last at {last:.0f} s",
        f"at least {least:.0f} a block, up to {series.planned_s:.0f} s",
    )


def _progress(series: Series) -> Check:
    idle = 0
    for block in _blocks(series, series.tokens):
        known = [float(value) for value in block if value is not None]
        idle += not known or known[-1] <= known[0]
    return Check(
        "progress", idle == 0, f"{idle} blocks without new tokens", "tokens written in every block"
    )


def _slope(rule: Rule, series: Series) -> Check:
    slope, low, high = slope_mb_per_hour(series)
    return Check(
        "slope",
        high <= rule.mb_per_hour,
        f"{slope:+.1f} MB/h (95 %: {low:+.1f} to {high:+.1f})",
        f"upper end at most {rule.mb_per_hour:g} MB/h",
    )


def _step(rule: Rule, series: Series) -> Check:
    step = step_mb(series)
    return Check(
        "step",
        step <= rule.step_mb,
        f"{step:+.1f} MB from second to last quarter",
        f"at most {rule.step_mb:g} MB",
    )


def _edges(series: Series) -> np.ndarray:
    return np.linspace(WARM_UP * series.planned_s, series.planned_s, BLOCKS + 1)


def _blocks(series: Series, values: Sequence[T]) -> list[list[T]]:
    """Values by block; those of the warm-up, and of what came after the run, are left out."""
    edges = _edges(series)
    blocks: list[list[T]] = [[] for _ in range(BLOCKS)]
    places = np.searchsorted(edges, series.t_s, side="right") - 1
    for t, place, value in zip(series.t_s, places.tolist(), values, strict=True):
        if edges[0] <= t <= edges[-1]:
            blocks[min(place, BLOCKS - 1)].append(value)
    return blocks
