"""The two threads that bring lines to the disk: one writes them, one syncs what was written."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from specdecode.errors import UserError
from specdecode.rollout.spool_counts import SpoolCounts
from specdecode.rollout.spool_lines import Item, Line, decoded, encoded, line_of
from specdecode.rollout.spool_repair import stopped_lines
from specdecode.rollout.spool_rescue import successor
from specdecode.rollout.spool_segment import Segment, SegmentGoneError
from specdecode.rollout.spool_ticket import Ticket

log = logging.getLogger("specdecode.rollout")

HELD_BYTES: Final = 64 << 20
"""Most bytes of lines that wait in memory for a disk."""
RETRY_S: Final = 1.0
"""Seconds until a disk that failed is tried again."""


class SpoolWriter:
    """Lines in, segments out. See `Spool` for what is promised.

    Args:
        segment: to begin with.
        segment_rows: lines after which a segment is closed.
        segment_s: seconds after which one with lines is closed.
        sync_s: seconds that lines are collected before a sync.

    Attributes:
        failure: why lines do not reach the disk, or None.
        counts: of what did, and of what did not.
    """

    def __init__(
        self, segment: Segment, *, segment_rows: int, segment_s: float, sync_s: float
    ) -> None:
        self.folder: Path = segment.folder
        self.counts = SpoolCounts()
        self.failure: str | None = None
        self.closing = False
        self._segment_rows, self._segment_s, self._sync_s = segment_rows, segment_s, sync_s
        self._segment = segment
        self._full: list[Segment] = []
        self._failed_sync: list[Segment] = []  # which only the writer may touch from then on
        self._queue: list[Item] = []
        self._held: list[Line] = []
        self._open: dict[str, bytes] = {}  # lines of requests that have begun and not ended
        self._loss: Counter[tuple[str, str | None, str]] = Counter()  # of which no line says so yet
        self._fatal = self._hurry = self._writer_ended = self._woken = False
        self._given = self._written = self._synced = 0
        lock = threading.Lock()
        # One condition for each who waits: a line that is given must not wake all threads.
        self._more = threading.Condition(lock)  # the writer waits
        self._dirty = threading.Condition(lock)  # the syncer
        self._settled = threading.Condition(lock)  # whoever flushes
        self._collecting = False  # the syncer has what to do, and lets it grow
        self._threads = [
            threading.Thread(target=self._write_all, name="spool-writer", daemon=True),
            threading.Thread(target=self._sync_all, name="spool-syncer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def written(self) -> int:
        """How many of the lines given so far are written."""
        return self._written

    @property
    def stuck(self) -> bool:
        """Whether lines wait for more than their turn."""
        return self.failure is not None or self._writer_ended

    def give(self, item: Item) -> Ticket:
        """Hand over a line; after `close` a row is counted as lost."""
        with self._more:
            if self.closing:
                self.counts.lost += item.kind == "row"
                return Ticket(self, None)
            self._queue.append(item)
            self._given += 1
            self._more.notify()
            return Ticket(self, self._given)

    def flush(self) -> None:
        """Wait until all that was given so far is synced.

        Raises:
            UserError: it could not be.
        """
        with self._settled:
            mine = self._given
            self._hurry = True
            self._dirty.notify()
            self._settled.wait_for(
                lambda: self._synced >= mine or self.failure is not None or self._writer_ended
            )
            self._hurry = False
            if self._synced < mine:
                raise UserError(
                    f"{self.folder}: rows could not be written "
                    f"({self.failure or 'the spool is closed'}); make room for them, or start the "
                    "router anew"
                )

    def close(self) -> None:
        """Write and sync what is left, and end both threads. A second call is harmless."""
        with self._more:
            self.closing = True
            self._more.notify()
        for thread in self._threads:
            thread.join()

    # The writer's thread.

    def _write_all(self) -> None:
        closing = False
        while not closing:
            with self._more:
                self._more.wait_for(
                    lambda: self._queue or self.closing or self._woken, self._patience()
                )
                self._woken = False
                items, self._queue = self._queue, []
                given, closing = self._given, self.closing
            try:
                self._held += [line for item in items if (line := line_of(item)) is not None]
                written = self._put()
            except Exception as error:  # noqa: BLE001 - a thread that dies would die unnoticed
                self._failed(error, fatal=True)
                written = False
            if written:
                with self._dirty:
                    self._written = given
                    if not self._collecting:
                        self._dirty.notify()
        left = stopped_lines([decoded(line) for line in self._open.values()])
        self._open.clear()
        self._held += [Line("row", None, line, failed=True) for line in left]
        if not self._put():
            self._lose(self._held)
        with self._dirty:
            self._writer_ended = True
            self._dirty.notify()
            self._settled.notify_all()

    def _patience(self) -> float:
        """Seconds until there is something to do though nothing was given."""
        if self._held or self._failed_sync:
            return RETRY_S
        age = time.monotonic() - self._segment.born if self._segment.rows else 0.0
        return max(0.0, self._segment_s - age)

    def _put(self) -> bool:
        """Write what is held; False if that is not possible now."""
        if self._fatal:
            self._lose(self._held)
            self._held = []
            return False
        try:
            if self._failed_sync:
                self._go_on_elsewhere()
            if self._loss:
                of = [[*of, rows] for of, rows in self._loss.items()]
                told = Line("lost", None, encoded("lost", {"of": of, "why": self.failure}))
                self._segment.write(told.data, rows=1, lines=[told])
                self._loss.clear()
            if self._held:
                data = b"".join(line.data for line in self._held)
                self._segment.write(data, rows=len(self._held), lines=self._held)
        except OSError as error:
            self._failed(error)
            self._shorten()
            return False
        self.counts.add(self._held, self._open)
        self._held = []
        try:
            self._turn_over()
        except OSError as error:  # this segment goes on; whether that works, its next write tells
            self._failed(error)
        else:
            self._works()
        return True

    def _turn_over(self) -> None:
        """Begin the next segment if this one is full or old.

        Requests in flight are written into it again, so that closed segments need not be searched
        for them after a crash.
        """
        rows, age = self._segment.rows, time.monotonic() - self._segment.born
        if not rows or (rows < self._segment_rows and age < self._segment_s):
            return
        following = Segment(self.folder, self._segment.number + 1)
        try:
            following.write(b"".join(self._open.values()), rows=0)
        except OSError:
            with contextlib.suppress(OSError):
                following.close()  # removes it, as there is no line in it
            raise
        with self._dirty:
            self._full.append(self._segment)
            self._segment = following

    def _go_on_elsewhere(self) -> None:
        """Begin a segment in place of those that could not be synced; raises OSError."""
        failed = list(self._failed_sync)
        following = successor(self._segment, failed, self._open.values())
        with self._dirty:  # the writer may have turned over before it heard of the failure
            self._full = [each for each in self._full if each not in failed]
            self._failed_sync = [each for each in self._failed_sync if each not in failed]
            self._segment = following
        for segment in failed:
            segment.give_up()
        self.counts.failed_syncs += len(failed)
        log.warning(
            "%s: %d segments could not be synced; what was in doubt is in segment %d",
            self.folder, len(failed), following.number,
        )  # fmt: skip

    def _shorten(self) -> None:
        """Keep the oldest lines that may wait; the others are lost."""
        size = 0
        for place, line in enumerate(self._held):
            size += len(line.data)
            if size > HELD_BYTES:
                self._lose(self._held[place:])
                del self._held[place:]
                return

    def _lose(self, lines: Sequence[Line]) -> None:
        self.counts.lost += sum(line.kind == "row" for line in lines)
        self._loss.update(line.of for line in lines if line.of is not None)

    def _failed(self, error: Exception, *, fatal: bool = False) -> None:
        if self.failure is None:
            log.error("%s: rows cannot be written: %s", self.folder, error)
        with self._settled:
            self.failure = f"{type(error).__name__}: {error}"
            self._fatal = self._fatal or fatal
            self._settled.notify_all()

    def _works(self) -> None:
        with self._settled:
            if self.failure is not None and not self._fatal and not self._failed_sync:
                log.warning("%s: rows are written again", self.folder)
                self.failure = None

    # The syncer's thread.

    def _may_sync(self) -> bool:
        if self._failed_sync:
            return self._writer_ended
        return bool(self._written > self._synced or self._full or self._writer_ended)

    def _sync_all(self) -> None:
        ended = False
        while not ended:
            with self._dirty:
                self._dirty.wait_for(self._may_sync)
                self._collecting = True
                self._dirty.wait_for(lambda: self._hurry or self._writer_ended, self._sync_s)
                self._collecting = False
                ended, target = self._writer_ended, self._written
                if ended and self._failed_sync:
                    return  # the next start makes of them what can be made
                current, full, self._full = self._segment, self._full, []
            segment = current
            try:
                # The next one first: its copies of requests in flight replace those in the others.
                current.sync()
                while full:
                    segment = full[0]
                    segment.close()
                    full.pop(0)
                    self.counts.segments += 1
                if ended:
                    current.close()
                    self.counts.segments += not current.empty
            except Exception as error:  # noqa: BLE001 - a thread that dies would die unnoticed
                # Nobody knows what a failed sync has left on the disk, so there is no next try: the
                # writer goes on in another segment, if there is still a folder to have one in.
                may = isinstance(error, OSError) and not isinstance(error, SegmentGoneError)
                self._failed(error, fatal=not may)
                if ended or not may:
                    return
                with self._more:
                    self._failed_sync.append(segment)
                    self._full = full + self._full
                    self._woken = True
                    self._more.notify()
                continue
            with self._settled:
                self._synced = target
                self._settled.notify_all()
