"""An estimate as the report shows it: value, interval and size, or why it is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A number with its interval.

    Attributes:
        value: None when not measured.
        low, high: ends of the interval; None when there were too few prompts for one.
        n: prompts behind it; None when the source does not say.
        reason: why value or interval is missing.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    reason: str | None = None

    @property
    def drawable(self) -> bool:
        """Whether there is a point to draw."""
        return self.value is not None


MISSING = Estimate(None)


def read_estimate(source: object, *, reason: str | None = None) -> Estimate:
    """Read an estimate from a metrics document.

    Args:
        source: a number, a mapping with estimate / low / high / n, or None.
        reason: said when there is no value.
    """
    if isinstance(source, bool) or source is None:
        return Estimate(None, reason=reason)
    if isinstance(source, int | float):
        return Estimate(float(source))
    if not isinstance(source, Mapping):
        return Estimate(None, reason=reason)
    value = source.get("estimate")
    return Estimate(
        None if value is None else float(value),
        source.get("low"),
        source.get("high"),
        source.get("n"),
        source.get("reason") or (reason if value is None else None),
    )


def reach_of(item: Estimate) -> tuple[float, float]:
    """Length of both halves of an error bar; a missing or endless end draws none."""
    value = item.value or 0.0
    below, above = (
        0.0 if end is None or not math.isfinite(end) else abs(value - end)
        for end in (item.low, item.high)
    )
    return below, above
