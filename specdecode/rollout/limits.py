"""How much the candidate may be given: so much a second, so much at once, nothing while it fails.

What is refused here goes to the baseline. It is counted, and it is no row: of neither arm, since
the request was meant for the candidate and the candidate never saw it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Literal

from specdecode.rollout.settings import Limits

Refusal = Literal["rate", "concurrency", "breaker"]


class Breaker:
    """Opens after failures in a row, and lets one request try again after a pause.

    Args:
        failures: in a row, that open it.
        pause_s: seconds until somebody may try again.
        now: seconds, monotonic.
    """

    def __init__(self, failures: int, pause_s: float, now: Callable[[], float] = monotonic) -> None:
        self._failures, self._pause_s, self._now = failures, pause_s, now
        self._in_a_row = 0
        self._until: float | None = None
        self.opened = 0

    @property
    def is_open(self) -> bool:
        """Whether nobody but the next one to try may pass."""
        return self._until is not None

    @property
    def would_pass(self) -> bool:
        """Whether `passes` would say yes."""
        return self._until is None or self._now() >= self._until

    def passes(self) -> bool:
        """Whether a request may go; after a pause this is the one that tries, and no other."""
        if not self.would_pass:
            return False
        if self._until is not None:
            self._until = self._now() + self._pause_s
        return True

    def succeeded(self) -> None:
        """A request went well."""
        self._in_a_row, self._until = 0, None

    def failed(self) -> None:
        """A request failed."""
        self._in_a_row += 1
        if self._in_a_row >= self._failures:
            if self._until is None:
                self.opened += 1
            self._until = self._now() + self._pause_s


class CandidateLimits:
    """Admits requests to the candidate. Of the event loop's thread only.

    Args:
        limits: the numbers.
        now: seconds, monotonic.
    """

    def __init__(self, limits: Limits, now: Callable[[], float] = monotonic) -> None:
        self._limits, self._now = limits, now
        self._most = max(1.0, limits.rps or 0.0)
        self._tokens, self._filled = self._most, now()
        self.breaker = Breaker(limits.failures, limits.pause_s, now)
        self.in_flight = 0
        self.refused: dict[Refusal, int] = {"rate": 0, "concurrency": 0, "breaker": 0}

    def enter(self, *, counted: bool = True) -> Refusal | None:
        """Admit a request, or say what keeps it out.

        Args:
            counted: whether it is in flight until `leave`; whoever bounds it otherwise says no.
        """
        why = self._refusal(counted=counted)
        if why is not None:
            self.refused[why] += 1
            return why
        if self._limits.rps is not None:
            self._tokens -= 1
        self.in_flight += counted
        return None

    def leave(self) -> None:
        """An admitted request is over."""
        self.in_flight -= 1

    def _refusal(self, *, counted: bool) -> Refusal | None:
        if counted and self.in_flight >= self._limits.concurrency:
            return "concurrency"
        if self._limits.rps is not None:
            now = self._now()
            self._tokens = min(self._most, self._tokens + (now - self._filled) * self._limits.rps)
            self._filled = now
            if self._tokens < 1:
                return "rate"
        return None if self.breaker.passes() else "breaker"
