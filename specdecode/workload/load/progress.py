"""Counts of a run while it goes on, for whoever wants to look."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from specdecode.workload.load.faults import CONNECTION
from specdecode.workload.load.observation import Observation

_RECENT = 200


@dataclass
class Progress:
    """Updated in place by the runner.

    Attributes:
        total: requests planned; None when only the clock ends the run.
        phase: "warm-up", "load" or "ending".
        failures_in_a_row: connection failures since a request last got an answer of any kind.
    """

    total: int | None = None
    phase: str = "warm-up"
    now_s: float = 0.0
    sent: int = 0
    ok: int = 0
    cancelled: int = 0
    tokens: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    failures_in_a_row: int = 0
    recent_ttft_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    recent_tpot_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    recent_lag_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @property
    def in_flight(self) -> int:
        """Requests sent whose exchange is not over."""
        return self.sent - self.ok - self.cancelled - self.failed.total()

    def note(self, seen: Observation) -> None:
        """One exchange is over."""
        if seen.fault is not None:
            kind = seen.fault[0]
            self.failed[kind] += 1
            self.failures_in_a_row = self.failures_in_a_row + 1 if kind in CONNECTION else 0
            return
        self.failures_in_a_row = 0
        if seen.cancelled:
            self.cancelled += 1
        else:
            self.ok += 1
            self.tokens += seen.output_tokens or 0
            if seen.tpot_s is not None:
                self.recent_tpot_s.append(seen.tpot_s)
        if seen.ttft_s is not None:
            self.recent_ttft_s.append(seen.ttft_s)
        if seen.lag_s is not None:
            self.recent_lag_s.append(seen.lag_s)
