"""The record of a router: rows of requests, written beside the traffic and never in its way.

Whoever answers users only hands lines over. One thread writes them at once, so that they survive
the end of the process; another syncs all that was written since its last time (group commit), so
that they survive a power cut. Neither is ever waited for, except by `flush`, `close`, and whoever
has a ticket of `begin` (spool_ticket.py).

A disk that is full holds the lines up: they stay in memory, up to a limit, and are written when
there is room again. Until then `recording` is False, and whoever routes should send the candidate
nothing. What is lost beyond the limit is counted, and a line says so.

The files and lines: spool_lines.py and docs/spool.md.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from specdecode.durable import written_whole
from specdecode.errors import UserError
from specdecode.measurement.lock import FileLock
from specdecode.measurement.records import Record
from specdecode.rollout.spool_counts import SpoolCounts
from specdecode.rollout.spool_lines import LOCK, MARK, SCHEMA, WITHOUT_ROW, Item
from specdecode.rollout.spool_repair import Repaired, repair
from specdecode.rollout.spool_segment import Segment
from specdecode.rollout.spool_ticket import Ticket
from specdecode.rollout.spool_writer import SpoolWriter

__all__ = ["Spool", "SpoolCounts"]


class Spool:
    """Writes a spool. One writer a folder; all methods may be called from any thread.

    Args:
        folder: made when it is not there.
        segment_rows: lines after which a segment is closed.
        segment_s: seconds after which one with lines is closed.
        sync_s: seconds within which a line is safe from a power cut, the disk's own time beside.

    Attributes:
        repaired: what a crash had left in the folder.

    Raises:
        UserError: another process writes to this folder.
        EvidenceError: segments are missing.
        OSError: the folder cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_rows: int = 10_000,
        segment_s: float = 300.0,
        sync_s: float = 0.05,
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(
            path := self.folder / LOCK,
            f"{path}: another router records into this folder; stop it, or give this one a folder "
            "of its own",
        )
        try:
            self.repaired: Repaired = repair(self.folder)
            _mark(self.folder)
            first = Segment(self.folder, self.repaired.next_number)
        except BaseException:
            self._lock.release()
            raise
        self._writer = SpoolWriter(
            first, segment_rows=segment_rows, segment_s=segment_s, sync_s=sync_s
        )

    @property
    def recording(self) -> bool:
        """Whether what is handed over reaches the disk."""
        return self._writer.failure is None and not self._writer.closing

    @property
    def failure(self) -> str | None:
        """Why it does not, or None."""
        return self._writer.failure

    @property
    def counts(self) -> SpoolCounts:
        """What was written, and what was not."""
        return self._writer.counts

    def begin(self, asked: Mapping[str, Any]) -> Ticket:
        """A request is about to be sent.

        Args:
            asked: the fields of its record that are known by now, `request_id` among them.

        Returns:
            What tells when the line outlives this process. No client should have an answer sooner:
            a crash would leave nothing of the request.
        """
        return self._writer.give(Item("begin", {"asked": dict(asked)}))

    def queued(self, asked: Mapping[str, Any], partner: str) -> None:
        """A copy waits to be sent; `begin` follows, or `without_row`.

        Args:
            asked: as for `begin`.
            partner: `request_id` of the row that it will be compared with, which does not count if
                the copy is never sent.
        """
        self._writer.give(Item("queued", {"asked": dict(asked), "partner": partner}))

    def append(self, record: Record, extra: Mapping[str, Any] | None = None) -> None:
        """A request has ended; this is its row.

        Args:
            record: the row.
            extra: what a record has no place for; JSON.
        """
        self._writer.give(Item("row", dict(extra or {}), record))

    def without_row(
        self,
        kind: str,
        request_id: str,
        why: str,
        *,
        retract: Sequence[str] = (),
        **details: Any,
    ) -> None:
        """A request has ended, for a reason that is no arm's failure, and gets no row.

        Args:
            kind: "shed", "refused", "cancelled" or "unjudged".
            request_id: its id.
            why: for people.
            retract: rows that do not count any more: of a pair without its other half.
            details: JSON.

        Raises:
            ValueError: no such kind.
        """
        if kind not in WITHOUT_ROW:
            raise ValueError(f"{kind!r} is none of {', '.join(sorted(WITHOUT_ROW))}")
        named = {"request_id": request_id, "why": why, "retract": list(retract)}
        self._writer.give(Item(kind, {**details, **named}))

    def note(self, of: str, **details: Any) -> None:
        """Anything else worth keeping, such as how the replies of a pair compare; JSON."""
        self._writer.give(Item("note", {"of": of, **details}))

    def flush(self) -> None:
        """Wait until all that was handed over so far survives a power cut.

        Raises:
            UserError: it could not be written; says why.
        """
        self._writer.flush()

    def close(self) -> None:
        """Write what is left, say of requests in flight that the router ended, close the segment.

        Closing twice is harmless. What cannot be written is counted as lost.
        """
        self._writer.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _mark(folder: Path) -> None:
    path = folder / MARK
    if not path.exists():
        with written_whole(path) as file:
            file.write(json.dumps({"schema": SCHEMA}).encode() + b"\n")
        return
    with contextlib.suppress(ValueError, AttributeError):
        if json.loads(path.read_bytes()).get("schema") == SCHEMA:
            return
    raise UserError(f"{path} is not the mark of a spool of this version; use another folder")
