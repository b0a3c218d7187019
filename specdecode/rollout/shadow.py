"""Copies of requests at the candidate, each beside what the baseline made of its original."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from multidict import CIMultiDict

from specdecode.measurement.records import Record
from specdecode.rollout.bodies import Bodies
from specdecode.rollout.copies import Copy
from specdecode.rollout.limits import CandidateLimits
from specdecode.rollout.mirror_spool import NoRow
from specdecode.rollout.observation import ReplyWatch
from specdecode.rollout.rows import record_of
from specdecode.rollout.upstream import Upstream, pieces
from specdecode.workload.load.faults import Fault

Compared = Callable[[ReplyWatch, ReplyWatch, Mapping[str, Any]], None]
"""Told of the baseline's reply, the candidate's, and what was asked."""


@dataclass(frozen=True)
class PairedCopy(Copy):
    """A copy that knows its original.

    Attributes:
        original: the baseline's reply once that has ended; None if nobody watched it.
    """

    original: asyncio.Future[ReplyWatch | None] | None = field(default=None, repr=False)


class CopySender:
    """Sends copies to the candidate, and reads their replies to the end.

    Args:
        candidate: the server.
        limits: told how it went.
        compared: told of either reply, once both have ended, and what was asked.
        keep_ids: keep the ids of tokens, where the server sends them.
        bodies: keeps texts; None if nobody asked for that.
    """

    def __init__(
        self,
        candidate: Upstream,
        limits: CandidateLimits,
        compared: Compared,
        *,
        keep_ids: bool = False,
        bodies: Bodies | None = None,
    ) -> None:
        self._candidate, self._limits, self._keep_ids = candidate, limits, keep_ids
        self._bodies = bodies
        self._compared = compared

    async def send(self, copy: Copy) -> Record | NoRow:
        """The row of a copy. A failure is a row, but not a refusal that the baseline shares."""
        watch = ReplyWatch(started=monotonic(), streaming=copy.streaming, keep_ids=self._keep_ids)
        watch.ended(monotonic(), await self._read(copy, watch))
        if _is_alone(copy):
            return NoRow("unjudged", "the router could not watch the baseline's reply")
        if watch.refused and not await _accepted(copy):
            return NoRow("refused", f"HTTP {watch.status}")
        record = record_of(copy.asked, watch)
        if self._bodies is not None and self._bodies.wants(record.prompt_id):
            self._bodies.keep(record.request_id, copy.body, watch.text)
        if record.error is None:
            self._limits.breaker.succeeded()
            self._compare(copy, watch)
        else:
            self._limits.breaker.failed()
        return record

    def _compare(self, copy: Copy, watch: ReplyWatch) -> None:
        """Once the baseline's reply has ended as well; the row does not wait for that."""
        if not isinstance(copy, PairedCopy) or copy.original is None:
            return

        def compare(original: asyncio.Future[ReplyWatch | None]) -> None:
            found = None if original.cancelled() else original.result()
            if found is not None:
                self._compared(found, watch, copy.asked)

        copy.original.add_done_callback(compare)

    async def _read(self, copy: Copy, watch: ReplyWatch) -> str | None:
        """What went wrong, or None."""
        try:
            reply = await self._candidate.ask(
                "POST", copy.path, CIMultiDict(copy.headers), copy.body
            )
        except Fault as fault:
            return str(fault)
        try:
            watch.headers(reply.status, reply.headers, monotonic())
            async for piece in pieces(reply):
                watch.chunk(piece, monotonic())
        except Fault as fault:
            return str(fault)
        finally:
            reply.close()
        return None


def _is_alone(copy: Copy) -> bool:
    """Whether it is known that there is nothing to compare the copy with."""
    if not isinstance(copy, PairedCopy) or copy.original is None:
        return False
    return copy.original.done() and not copy.original.cancelled() and copy.original.result() is None


async def _accepted(copy: Copy) -> bool:
    """Whether the baseline answered the original."""
    if not isinstance(copy, PairedCopy) or copy.original is None:
        return False
    # Another may still be waiting for it, so giving up the copy must not end it.
    original = await asyncio.shield(copy.original)
    return original is not None and original.error is None
