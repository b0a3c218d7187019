"""An estimate as the report shows it: value, interval, size, and why it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NOT_MEASURED = "not measured"


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


MISSING = Estimate(None, reason=NOT_MEASURED)


def read_estimate(source: object, *, reason: str = NOT_MEASURED) -> Estimate:
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


def number(value: float | None, digits: int = 2, unit: str = "", scale: float = 1.0) -> str:
    """Format a number for people; None is "not measured", never 0."""
    if value is None:
        return NOT_MEASURED
    return f"{value * scale:,.{digits}f}{unit}"


def interval(low: float | None, high: float | None, digits: int = 2, scale: float = 1.0) -> str:
    """Format an interval. One-sided intervals have an open end; none at all is said so."""
    if low is None and high is None:
        return "no interval"
    ends = (
        (number(low * scale, digits) if low is not None else "−∞"),
        (number(high * scale, digits) if high is not None else "+∞"),
    )
    return f"{ends[0]} to {ends[1]}"


def share(value: float | None, digits: int = 1) -> str:
    """Format a fraction as per cent."""
    return number(value, digits, " %", scale=100.0)
