"""What went through a spool, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from specdecode.rollout.spool_lines import WITHOUT_ROW, Line


@dataclass
class SpoolCounts:
    """What went through a spool since it was opened.

    Attributes:
        begun: requests that were sent to an arm.
        recorded: rows, of which `errors` have an error.
        errors: rows of failed requests.
        without_row: requests that ended without a row, by kind: shed, refused, cancelled.
        lost: rows that could not be written.
        segments: closed so far.
        failed_syncs: segments that were given up because the disk failed to sync them; their lines
            in doubt were written again into the next.
        in_flight: requests and copies that have begun and not ended.
    """

    begun: int = 0
    recorded: int = 0
    errors: int = 0
    without_row: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    segments: int = 0
    failed_syncs: int = 0
    in_flight: int = 0

    def add(self, lines: Sequence[Line], unfinished: dict[str, bytes]) -> None:
        """Count lines that were written.

        Args:
            lines: they.
            unfinished: first lines of requests that have begun and not ended, which is kept so.
        """
        for line in lines:
            if line.kind in ("begin", "queued") and line.request is not None:
                self.begun += line.kind == "begin"
                unfinished[line.request] = line.data
                continue
            if line.kind == "row":
                self.recorded += 1
                self.errors += line.failed
            elif line.kind in WITHOUT_ROW:
                self.without_row[line.kind] = self.without_row.get(line.kind, 0) + 1
            if line.request is not None:
                unfinished.pop(line.request, None)
        self.in_flight = len(unfinished)

    def to_json(self) -> dict[str, Any]:
        """For health."""
        return asdict(self)
