"""How a router is: whether it records, what the candidate gets, what became of the copies."""

from __future__ import annotations

from typing import Any

from specdecode.rollout.bodies import Bodies
from specdecode.rollout.comparing import Comparing
from specdecode.rollout.limits import CandidateLimits
from specdecode.rollout.mirror import Mirror
from specdecode.rollout.recording import Recorder
from specdecode.rollout.spool import Spool


class Health:
    """Reads the parts of a router.

    Args:
        recorder: keeps rows.
        spool: holds them; None if it could not be opened.
        limits: of the candidate.
        mirror: sends copies; None without a spool.
        pairs: compares what came back.
        bodies: keeps texts; None if nobody asked for that.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        spool: Spool | None,
        limits: CandidateLimits,
        mirror: Mirror | None,
        pairs: Comparing | None,
        bodies: Bodies | None,
    ) -> None:
        self._recorder, self._spool = recorder, spool
        self._limits, self._mirror, self._pairs = limits, mirror, pairs
        self._bodies = bodies

    def to_json(self) -> dict[str, Any]:
        """For `/rollout`; JSON-safe, without secrets."""
        limits, breaker = self._limits, self._limits.breaker
        return {
            "recording": self._recorder.recording,
            "why": self._recorder.why,
            "spool": {} if self._spool is None else self._spool.counts.to_json(),
            "candidate": {
                "in_flight": limits.in_flight,
                "resting": breaker.is_open,
                "rested": breaker.opened,
                "spilled": dict(limits.refused),
            },
            "mirror": {} if self._mirror is None else self._mirror.to_json(),
            "unrecorded": self._recorder.unrecorded,
            "ahead_of_record": self._recorder.patience.ahead,
            "bodies": {} if self._bodies is None else self._bodies.counts.to_json(),
            "pairs": {} if self._pairs is None else self._pairs.summary.to_json(),
        }
