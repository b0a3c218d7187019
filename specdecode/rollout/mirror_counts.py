"""What became of the requests that a mirror was to copy, as numbers that add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

SHED: Final = {
    "full": "the queue was full, and older copies give way to newer ones",
    "size": "the body is larger than a copy may be",
    "malformed": "the body is not a JSON object",
    "old": "it waited too long for its turn",
    "state": "the router's state changed before it was sent",
    "stopped": "the router stopped before it was sent or answered",
    "recording": "nothing can be recorded, and what isn't recorded isn't sent",
    "broken": "the router's own bookkeeping failed",
}
"""Why a copy that would do no harm was not sent, or its reply not waited for."""

_MUTE_FROM: Final = 20
"""Expected copies of a route from which having sent none is no accident."""


@dataclass
class MirrorCounts:
    """Counts since the start.

    `offered` is the sum of `refused`, `shed`, `ended`, `unjudged`, and of what waits or is in
    flight. A copy that is cut off in flight was sent and is shed.

    Attributes:
        expected: requests times the share that was to be copied, by route.
        offered: copies the router asked for, by route.
        sent: of these, sent to the candidate, by route.
        ended: of these, recorded as rows.
        failed: of these, rows with an error.
        unjudged: sent and answered, with a reply that says nothing of the candidate.
        refused: not copied because a copy would do more than decode, by reason.
        shed: not copied or not waited for by the router's choice, by reason (`SHED`).
        broken: errors inside the mirror itself; what they concern is also shed.
    """

    expected: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    offered: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    failed: int = 0
    unjudged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    shed: Counter[str] = field(default_factory=Counter)
    broken: int = 0

    @property
    def sent_share(self) -> float | None:
        """Sent, of those that may be copied; None before there were any."""
        possible = self.offered.total() - self.refused.total()
        return self.sent.total() / possible if possible else None

    @property
    def mute(self) -> list[str]:
        """Routes of which copies were expected and none was offered: a mirror that never fires."""
        return sorted(
            route
            for route, expected in self.expected.items()
            if expected >= _MUTE_FROM and not self.offered[route]
        )

    def to_json(self) -> dict[str, Any]:
        """For people and alarms; flat names, such as `shed_full`, for what they add up."""
        expected = sum(self.expected.values())
        return {
            "expected": round(expected, 3),
            "offered": self.offered.total(),
            "sent": self.sent.total(),
            "ended": self.ended,
            "failed": self.failed,
            "unjudged": self.unjudged,
            "refused": self.refused.total(),
            "shed": self.shed.total(),
            **{f"shed_{why}": self.shed[why] for why in SHED},
            **{f"refused_{why}": count for why, count in sorted(self.refused.items())},
            "broken": self.broken,
            "sent_share": self.sent_share,
            "sent_over_expected": self.sent.total() / expected if expected else None,
            "routes": {
                route: {
                    "expected": round(self.expected.get(route, 0.0), 3),
                    "offered": self.offered[route],
                    "sent": self.sent[route],
                }
                for route in sorted({*self.expected, *self.offered})
            },
            "mute": self.mute,
        }
