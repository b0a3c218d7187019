"""Is the run whole? One line that says so, with counts that add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["complete", "partial", "failed"]


@dataclass(frozen=True)
class Verdict:
    """How a run ended.

    complete: everything planned was sent, and every request was answered whole or cancelled as
    planned. partial: something is missing or failed, and something succeeded. failed: nothing did.

    Args:
        planned: requests planned; None when only the clock ended the run.
        sent: requests sent.
        ok: answered whole.
        cancelled: closed by the client on purpose.
        failed: counts by class.
        stopped: why the run ended before its plan; None when it did not.
    """

    planned: int | None
    sent: int
    ok: int
    cancelled: int
    failed: Mapping[str, int]
    stopped: str | None

    @property
    def unsent(self) -> int:
        """Planned and not sent."""
        return 0 if self.planned is None else self.planned - self.sent

    @property
    def status(self) -> Status:
        """See the class. No data is a failure."""
        if self.ok + self.cancelled == 0:
            return "failed"
        whole = not sum(self.failed.values()) and not self.unsent and self.stopped is None
        return "complete" if whole else "partial"

    @property
    def line(self) -> str:
        """The verdict for people and logs."""
        parts = [f"{self.ok} ok"]
        if self.cancelled:
            parts.append(f"{self.cancelled} cancelled as planned")
        parts.extend(f"{number} {kind}" for kind, number in sorted(self.failed.items()))
        text = f"{self.status}: {self.sent} sent = {' + '.join(parts)}"
        if self.unsent:
            text += f"; {self.unsent} of {self.planned} not sent"
        return text if self.stopped is None else f"{text}; stopped early: {self.stopped}"

    def to_json(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "status": self.status,
            "line": self.line,
            "planned": self.planned,
            "sent": self.sent,
            "ok": self.ok,
            "cancelled": self.cancelled,
            "failed": dict(sorted(self.failed.items())),
            "unsent": self.unsent,
            "stopped": self.stopped,
        }
