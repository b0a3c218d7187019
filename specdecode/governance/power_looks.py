"""When a simulated metric is decided: the first unit at which its sequence is on one side.

The same methods, levels and values as `live.findings`, without the bounds that are only shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from specdecode.governance.live.bounds import Method, crossing, lower_bound
from specdecode.governance.live.margins import Scale, bounds_of, scale_of
from specdecode.governance.live.samples import kind_of
from specdecode.governance.live.values import row_values
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_stages import Stage
from specdecode.governance.power_streams import Requests
from specdecode.measurement.arrays import FloatArray, IntArray
from specdecode.statistics.drift import EDetector

_FIRST_LOOK = 64  # units of the arm; later looks double


@dataclass(frozen=True)
class Other:
    """The other arm of a canary, for a difference.

    Args:
        values: of its requests, in order, [m]; NaN where there is none.
        known: how many of them came before the arm's next request, [n].
    """

    values: FloatArray
    known: IntArray


@dataclass(frozen=True)
class Look:
    """One metric of one step.

    Args:
        stage: that judges it.
        metric: that is judged.
        kind: the method.
        scale: what its numbers can be, and what is asked.
        values: of the arm's units (or pairs), in order, [n]; NaN where there is none.
        other: of a canary's difference.
    """

    stage: Stage
    metric: PlanMetric
    kind: str
    scale: Scale
    values: FloatArray
    other: Other | None

    def of(self, requests: Requests, by: str, value: str) -> Look:
        """The units of one stratum; those outside have no value."""
        own = np.where(requests.labels[by] == value, self.values, np.nan)
        if self.other is None:
            return replace(self, values=own)
        others = np.where(requests.other_labels[by] == value, self.other.values, np.nan)
        return replace(self, values=own, other=replace(self.other, values=others))

    def units_for(self, n_min: int) -> int | None:
        """Units of the arm until n_min have a value, in both arms if two are compared."""
        enough = np.cumsum(~np.isnan(self.values)) >= n_min
        if self.other is not None:
            enough &= self.known_values()[self.other.known] >= n_min
        places = np.flatnonzero(enough)
        return int(places[0]) + 1 if len(places) else None

    def known_values(self) -> IntArray:
        """Values among the first 0, 1, … m requests of the other arm, [m + 1]."""
        assert self.other is not None  # noqa: S101 - for the type checker
        return np.concatenate([[0], np.cumsum(~np.isnan(self.other.values))])


def look_at(stage: Stage, metric: PlanMetric, requests: Requests) -> Look:
    """The numbers of a metric in one step's requests."""
    values = row_values(metric, requests.arm)
    other = None
    if metric.transform == "difference":
        others = row_values(metric, requests.baseline)
        if stage.name == "shadow":
            values = values - others
        else:
            other = Other(others, requests.known)
    return Look(stage, metric, kind_of(stage, metric), scale_of(metric), values, other)


def first_good(look: Look, alpha: float) -> int | None:
    """Units of the arm after which all of the sequence is on the good side; None if never."""
    return _first(look, alpha, len(look.values), good=True)


def first_bad(look: Look, alpha: float, within: int) -> int | None:
    """Units of the arm after which all of it is on the bad side, among the first `within`."""
    return _first(look, alpha, within, good=False)


def _first(look: Look, alpha: float, within: int, *, good: bool) -> int | None:
    above = look.scale.higher == good
    if look.other is not None:
        return _of_two(look, look.other, alpha, within, above=above)
    places = np.flatnonzero(~np.isnan(look.values[:within]))
    if not len(places):
        return None
    unit = look.scale.to_unit(look.values[places])
    m = float(look.scale.to_unit(np.array([look.scale.threshold]))[0])
    if look.kind == "e-detector":
        side = "less" if look.scale.higher else "greater"
        detector = EDetector(m, average_run_length=1 / alpha, side=side)  # type: ignore[arg-type]
        detector.update(unit)
        at = None if good else detector.alarm_at
    elif above:
        at = crossing(look.kind, unit, m, alpha)  # type: ignore[arg-type]
    else:
        at = crossing(look.kind, 1 - unit, 1 - m, alpha)  # type: ignore[arg-type]
    return None if at is None else int(places[at - 1]) + 1


def _of_two(look: Look, other: Other, alpha: float, within: int, *, above: bool) -> int | None:
    """As `live.findings.of_two` has it: two sequences at half the error each."""
    method: Method = look.kind  # type: ignore[assignment]
    low, high = bounds_of(look.metric)
    places = np.flatnonzero(~np.isnan(look.values[:within]))
    a = (look.values[places] - low) / (high - low)
    b = (other.values[~np.isnan(other.values)] - low) / (high - low)
    # The next request of the arm that has a value ends what is known of the other arm.
    until = np.append(places[1:] - 1, within - 1)
    known = look.known_values()[other.known[until]] if len(places) else np.empty(0, np.int64)
    asked = look.scale.threshold

    def holds(i: int) -> bool:
        own, beside = a[:i], b[: known[i - 1]]
        if not len(beside):
            return False
        if above:
            top = 1 - lower_bound(method, 1 - beside, alpha / 2)
            least = (high - low) * (lower_bound(method, own, alpha / 2) - top)
            return least >= asked if look.scale.higher else least > asked
        bottom = lower_bound(method, beside, alpha / 2)
        most = (high - low) * (1 - lower_bound(method, 1 - own, alpha / 2) - bottom)
        return most < asked if look.scale.higher else most <= asked

    at = _doubling(len(places), holds)
    return None if at is None else int(places[at - 1]) + 1


def _doubling(n: int, holds: Callable[[int], bool]) -> int | None:
    """The first of 1..n at which something holds that then goes on to hold; None if none."""
    fails, found = 0, min(n, _FIRST_LOOK)
    while found and not holds(found):
        if found == n:
            return None
        fails, found = found, min(n, 2 * found)
    while found - fails > 1:
        middle = (fails + found) // 2
        fails, found = (fails, middle) if holds(middle) else (middle, found)
    return found or None
