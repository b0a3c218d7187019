"""What a stream of units shows about a threshold: bounds so far, and since when it is decided.

Bounds are running intersections, so whatever they lie on one side of, they stay there. If they
cross, no common mean fits all units: what is measured has changed on the way, and nothing good
counts as shown. One change is forgiven to a single stream, a bad start (requests to a cold server):
where the bound that says so was set before anything better was known, it is left out, provided that
`n_min` units came after it and that they agree with each other. That none of them shows harm needs
no saying: harm among them would have moved that very bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specdecode.governance.live.bounds import Method, crossing, lower_bound
from specdecode.governance.live.margins import Scale
from specdecode.measurement.arrays import FloatArray, IntArray
from specdecode.statistics.drift import EDetector


@dataclass(frozen=True)
class Finding:
    """One number so far.

    Args:
        n: units that have it; of two arms, of the one that has fewer.
        estimate: mean of all units; None without any.
        low: lower end of the sequence; None where the method has no bounds, or without units.
        high: upper end.
        ready_at: units after which there were `n_min`; None if there are not.
        good_at: units after which all of the sequence was on the good side; None if it is not.
        bad_at: units after which all of it was on the bad side, or an alarm came.
    """

    n: int
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    ready_at: int | None = None
    good_at: int | None = None
    bad_at: int | None = None

    @property
    def empty(self) -> bool:
        """Whether no common mean fits; a sequence that one fits has some width."""
        return self.low is not None and self.low == self.high


@dataclass(frozen=True)
class Stream:
    """One arm's units in order.

    Args:
        values: in [low, high] of the metric, float [units].
        time: when each was complete, int [units], never falling.
    """

    values: FloatArray
    time: IntArray


def of_one(method: Method, values: FloatArray, scale: Scale, alpha: float, n_min: int) -> Finding:
    """The mean of one stream against its threshold, each side at `alpha`.

    Args:
        method: how.
        values: of the units, in order, within the scale.
        scale: what they can be, and what is asked.
        alpha: chance of a wrong decision, on either side.
        n_min: units before a good one counts.
    """
    n = len(values)
    if not n:
        return Finding(0)
    unit, m = scale.to_unit(values), float(scale.to_unit(np.array([scale.threshold]))[0])
    above = crossing(method, unit, m, alpha)
    below = crossing(method, 1 - unit, 1 - m, alpha)
    least, least_other = lower_bound(method, unit, alpha), lower_bound(method, 1 - unit, alpha)
    low, high = scale.to_own(least), scale.to_own(1 - least_other)
    good, bad = (above, below) if scale.higher else (below, above)

    def worse() -> bool:
        end = 1 - least_other if scale.higher else least  # of the bad side
        up = crossing(method, unit, end, alpha)
        down = crossing(method, 1 - unit, least_other if scale.higher else 1 - least, alpha)
        known, start = (up, down) if scale.higher else (down, up)
        if known is None or start is None or known <= start or n - start < n_min:
            return True
        rest = unit[start:]
        return lower_bound(method, rest, alpha) > 1 - lower_bound(method, 1 - rest, alpha)

    return _finding(
        scale,
        n,
        float(values.mean()),
        (low, high),
        (n_min if n >= n_min else None, good, bad),
        worse,
    )


def of_two(  # noqa: PLR0917 - one stream after the other, then what is asked of them
    method: Method,
    arm: Stream,
    baseline: Stream,
    bounds: tuple[float, float],
    scale: Scale,
    alpha: float,
    n_min: int,
) -> Finding:
    """The arm's mean minus the baseline's, by two sequences at half the error each.

    What was known after i units of the arm are the baseline's units up to the next one of the arm.

    Args:
        method: how.
        arm: the candidate's units.
        baseline: the other arm's, in the same time.
        bounds: of a unit's value.
        scale: of the difference.
        alpha: chance of a wrong decision, on either side.
        n_min: units of each arm before a good one counts.
    """
    n, m = len(arm.values), len(baseline.values)
    if not n or not m:
        return Finding(0)
    width = bounds[1] - bounds[0]
    a, b = ((side.values - bounds[0]) / width for side in (arm, baseline))
    known = np.append(np.searchsorted(baseline.time, arm.time[1:], side="left"), m)

    def least(i: int) -> float:  # the difference is at least that, after i units of the arm
        high = 1 - lower_bound(method, 1 - b[: known[i - 1]], alpha / 2)
        return width * (lower_bound(method, a[:i], alpha / 2) - high)

    def most(i: int) -> float:
        low = lower_bound(method, b[: known[i - 1]], alpha / 2)
        return width * (1 - lower_bound(method, 1 - a[:i], alpha / 2) - low)

    asked = scale.threshold
    if scale.higher:
        good = _first(n, lambda i: least(i) >= asked)
        bad = _first(n, lambda i: most(i) < asked)
    else:
        good = _first(n, lambda i: most(i) <= asked)
        bad = _first(n, lambda i: least(i) > asked)
    enough = np.flatnonzero((np.arange(1, n + 1) >= n_min) & (known >= n_min))
    ready = int(enough[0]) + 1 if len(enough) else None

    def fewer(i: int | None) -> int | None:
        return None if i is None else max(1, min(i, int(known[i - 1])))

    moments = (fewer(ready), fewer(good), fewer(bad))
    difference = float(arm.values.mean() - baseline.values.mean())
    # Bounds of a difference also cross where the baseline became worse, so no start is forgiven.
    return _finding(scale, min(n, m), difference, (least(n), most(n)), moments, lambda: True)


def of_detector(values: FloatArray, scale: Scale, run_length: float, n_min: int) -> Finding:
    """Alarms of an e-detector when the mean leaves its threshold to the bad side.

    Args:
        values: of the units, in order, within the scale.
        scale: what they can be, and what is asked.
        run_length: units until a false alarm, on average, at least.
        n_min: units before its silence counts.
    """
    n = len(values)
    if not n:
        return Finding(0)
    m = float(scale.to_unit(np.array([scale.threshold]))[0])
    detector = EDetector(
        m, average_run_length=run_length, side="less" if scale.higher else "greater"
    )
    detector.update(scale.to_unit(values))
    return Finding(
        n,
        float(values.mean()),
        ready_at=n_min if n >= n_min else None,
        bad_at=detector.alarm_at,
    )


def _first(n: int, holds: Callable[[int], bool]) -> int | None:
    """The first of 1..n from which on something holds, that once it does always does."""
    if not holds(n):
        return None
    fails, found = 0, n
    while found - fails > 1:
        middle = (fails + found) // 2
        if holds(middle):
            found = middle
        else:
            fails = middle
    return found


def _finding(  # noqa: PLR0917 - what is known, and what is only asked for where bounds cross
    scale: Scale,
    n: int,
    estimate: float,
    ends: tuple[float, float],
    moments: tuple[int | None, int | None, int | None],
    worse: Callable[[], bool],
) -> Finding:
    """Ends that say exactly what was decided, whatever rounding did to them.

    Where the sequence is empty its ends meet, on the bad side if they lie there, and nothing good
    was shown.
    """
    low, high = ends
    ready, good, bad = moments
    asked = scale.threshold
    if low > high and bad is None and not worse():
        low, high = (low, scale.high) if scale.higher else (scale.low, high)
    if scale.higher:
        low = max(low, asked) if good is not None else min(low, math.nextafter(asked, -math.inf))
        high = min(high, math.nextafter(asked, -math.inf)) if bad is not None else max(high, asked)
    else:
        high = min(high, asked) if good is not None else max(high, math.nextafter(asked, math.inf))
        low = max(low, math.nextafter(asked, math.inf)) if bad is not None else min(low, asked)
    if low > high:
        low = high = high if scale.higher == (bad is not None) else low
        good = None
    return Finding(n, estimate, low, high, ready, good, bad)
