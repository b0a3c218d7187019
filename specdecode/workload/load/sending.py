"""One request of a run: noted before it is sent, recorded whatever becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from specdecode.workload.engines.server import bearer
from specdecode.workload.load.client import Connections, usable_key
from specdecode.workload.load.engine import EngineSide
from specdecode.workload.load.exchange import Call, Clock, exchange
from specdecode.workload.load.faults import CLIENT_ERROR, INTERRUPTED, MALFORMED
from specdecode.workload.load.journal import Journal
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.progress import Progress
from specdecode.workload.load.request import Request
from specdecode.workload.load.rows import (
    asked_fields,
    details_of,
    due_at,
    record_of,
    request_id,
)
from specdecode.workload.load.spec import LoadSpec


class Stop:
    """Whether a run is to end before its plan does, and why: the first reason stays.

    Attributes:
        why: None while it goes on.
    """

    def __init__(self) -> None:
        self.why: str | None = None
        self._event = asyncio.Event()

    def is_set(self) -> bool:
        """Whether it is to end."""
        return self._event.is_set()

    def set(self, why: str) -> None:
        """End it."""
        self.why = self.why or why
        self._event.set()

    async def wait(self) -> None:
        """Until it is to end."""
        await self._event.wait()


class Sender:
    """Sends requests, and hands what came of them to the journal.

    Args:
        spec: of the run.
        journal: where everything goes.
        manifest_sha256: stands in every row.
        api_key: sent as a bearer token, recorded nowhere.
        progress: updated.
        engine: reads what the server says in its replies; None reads nothing.
        stop: set when nobody answers any more, or rows can no longer be written.

    Attributes:
        clock: of the run; whoever begins to measure begins another one.
        started: wall-clock time of its zero.
        last_end_s: run time at which an exchange was last over.
    """

    def __init__(
        self,
        spec: LoadSpec,
        journal: Journal,
        *,
        manifest_sha256: str,
        api_key: str | None,
        progress: Progress,
        engine: EngineSide | None,
        stop: Stop,
    ) -> None:
        self._spec, self._journal, self._manifest = spec, journal, manifest_sha256
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # to compress a stream is to hold it back
        }
        if (key := usable_key(api_key)) is not None:
            self._headers["Authorization"] = bearer(key)
        self._progress, self._engine, self._stop = progress, engine, stop
        self._slots = asyncio.Semaphore(spec.max_in_flight) if spec.max_in_flight else None
        self.clock, self.started = Clock(time.perf_counter()), datetime.now(UTC)
        self.last_end_s = 0.0

    def note(self, request: Request, seen: Observation) -> None:
        """Write down that a request is about to be sent."""
        self._progress.sent += 1
        try:
            self._journal.sent(self._asked(request, seen))
        except OSError as error:
            self._journal.failure = error
            self._stop.set("rows can no longer be written")

    async def send(
        self, connections: Connections, request: Request, body: bytes, seen: Observation
    ) -> None:
        """One exchange, recorded whatever happens."""
        asked = self._asked(request, seen)
        try:
            async with self._slot(seen), connections.one() as client:
                await exchange(client, self.call(request, body, seen), seen, self.clock)
        except asyncio.CancelledError:  # while it waited for a free slot
            seen.fault = (INTERRUPTED, "")
        except Exception as error:  # noqa: BLE001 - a fault of ours must be a row, too
            seen.fault = (CLIENT_ERROR, f"{type(error).__name__}: {error}")
        if seen.fault is not None and seen.fault[0] == INTERRUPTED:
            seen.fault = (INTERRUPTED, f"the run was ended: {self._stop.why}")
        seen.ended = self.clock.now() if seen.ended is None else seen.ended
        self.last_end_s = max(self.last_end_s, seen.ended)
        told = None if self._engine is None else self._engine.read(seen)
        try:
            record = record_of(asked, seen, self._spec, told)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            seen.fault = (MALFORMED, f"no row may hold {problem['loc']}: {problem['msg']}")
            record = record_of(asked, seen, self._spec)
        self._journal.ended(record, details_of(request, record.request_id, seen))
        self._progress.note(seen)
        limit = self._spec.give_up_after
        if limit and self._progress.failures_in_a_row >= limit:
            self._stop.set(f"{limit} connection failures in a row; the server is gone")
        if self._journal.failure is not None:
            self._stop.set("rows can no longer be written")

    def call(self, request: Request, body: bytes, seen: Observation) -> Call:
        """What is sent, and how long it may take."""
        name = quote(request_id(self._spec, request), safe="/~")
        return Call(
            url=self._spec.path,
            headers={**self._headers, "X-Request-ID": f"{self._manifest[:8]}/{name}"},
            body=body,
            deadline=seen.due + self._spec.deadline_s,
            cancel_after=request.cancel_after,
            keep_text=self._spec.keep_text,
            keep_ids=self._spec.token_ids,
        )

    @contextlib.asynccontextmanager
    async def _slot(self, seen: Observation) -> AsyncIterator[None]:
        if self._slots is None:
            yield
            return
        began = self.clock.now()
        async with self._slots:
            seen.queued_s = self.clock.now() - began
            yield

    def _asked(self, request: Request, seen: Observation) -> dict[str, Any]:
        return asked_fields(self._spec, request, self._manifest, due_at(self.started, seen.due))
