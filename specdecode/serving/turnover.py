"""When a client that found no room should come again."""

from __future__ import annotations

import math

_LONGEST_S = 60
_FADING = 0.9


class Turnover:
    """How long replies held their slots lately.

    Args:
        slots: how many there are.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held_s: float | None = None  # faded mean

    def ended(self, held_s: float) -> None:
        """A reply gave its slot back after so long."""
        before = held_s if self._held_s is None else self._held_s
        self._held_s = _FADING * before + (1 - _FADING) * held_s

    def retry_after_s(self, waiting: int) -> int:
        """Seconds until there should be room, with so many replies in the queue."""
        ahead = waiting * (self._held_s or 1.0) / self._slots
        return max(1, min(_LONGEST_S, math.ceil(ahead)))
