"""What a metric's margin asks for, and how its value becomes a number in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdecode.governance.plan_metrics import PlanMetric
from specdecode.statistics.sequential import FloatArray

ERROR_RATE = "error_rate"
"""The metric that every row has: whether the request failed."""


@dataclass(frozen=True)
class Scale:
    """A bounded number and the threshold it must keep.

    Args:
        low: smallest possible value of what is judged, in its own unit.
        high: largest possible value.
        threshold: what it must be at least or at most.
        higher: whether at least (else at most).
    """

    low: float
    high: float
    threshold: float
    higher: bool

    @property
    def width(self) -> float:
        """From the smallest possible value to the largest."""
        return self.high - self.low

    @property
    def asked(self) -> str:
        """The threshold in words."""
        return f"{'at least' if self.higher else 'at most'} {self.threshold:.4g} is asked for"

    def to_unit(self, values: FloatArray) -> FloatArray:
        """Values as numbers in [0, 1]; the clip only undoes rounding, bounds were checked."""
        return np.clip((values - self.low) / self.width, 0, 1)

    def to_own(self, unit: float) -> float:
        """A number of [0, 1] in the metric's own unit."""
        return self.low + self.width * unit


def is_rate(metric: PlanMetric) -> bool:
    """Whether each request's value is 0 or 1."""
    return metric.transform == "indicator" or metric.name == ERROR_RATE


def bounds_of(metric: PlanMetric) -> tuple[float, float]:
    """Smallest and largest value of one request.

    Raises:
        ValueError: it has none.
    """
    if is_rate(metric):
        return 0.0, 1.0
    if metric.bounds.high is None:
        raise ValueError(f"{metric.name} has no upper bound")
    return metric.bounds.low, metric.bounds.high


def scale_of(metric: PlanMetric) -> Scale:
    """What is judged of a metric: the arm's mean, or its difference to the baseline's.

    Raises:
        ValueError: it has no bounds, no margin, or one that no value could ever miss or keep.
    """
    low, high = bounds_of(metric)
    if metric.margin is None:
        raise ValueError(f"{metric.name} has no margin")
    higher, margin = metric.direction == "higher", metric.margin
    if metric.transform == "difference":
        width = high - low
        scale = Scale(-width, width, -margin if higher else margin, higher)
    else:
        scale = Scale(low, high, margin, higher)
    if not scale.low <= scale.threshold <= scale.high:
        raise ValueError(
            f"{metric.name}: its margin {margin:g} lies outside what its bounds allow, "
            f"{scale.low:g} to {scale.high:g}"
        )
    return scale
