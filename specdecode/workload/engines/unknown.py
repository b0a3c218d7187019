"""A number that a server told, or why it did not.

Zero and "not told" lead to opposite decisions, so a missing number never travels as a bare None: it
has its reason with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MAX_COUNT = 2**53
"""Counts travel as floating point; beyond this they are no longer exact."""


@dataclass(frozen=True)
class Unknown:
    """Not told, and why."""

    reason: str


Count = int | Unknown
"""A whole number, 0 or more."""


def count(value: object, what: str) -> Count:
    """A count as a server wrote it.

    Args:
        value: from JSON or from metrics; 3.0 is a count, True and "3" are none.
        what: its name, for the reason.
    """
    if value is None:
        return Unknown(f"{what} is absent or null")
    whole = not isinstance(value, bool) and isinstance(value, int | float)
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        whole = False
    if not whole or not 0 <= value < MAX_COUNT:  # type: ignore[operator]
        return Unknown(f"{what} is {value!r}, which is no count")
    return int(value)  # type: ignore[call-overload, no-any-return]


def added(*counts: Count) -> Count:
    """The sum, unless one of them is unknown."""
    known = [each for each in counts if not isinstance(each, Unknown)]
    if len(known) < len(counts):
        return next(each for each in counts if isinstance(each, Unknown))
    return sum(known)


def split(told: Mapping[str, object]) -> tuple[dict[str, object], dict[str, str]]:
    """Values with None where unknown, and the reason for each None."""
    values = {name: None if isinstance(v, Unknown) else v for name, v in told.items()}
    reasons = {name: v.reason for name, v in told.items() if isinstance(v, Unknown)}
    return values, reasons
