"""Sends a plan: at its own times (open loop), or as replies come back (closed loop)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from specdecode.workload.load.body import body_of
from specdecode.workload.load.client import Connections, on_signals
from specdecode.workload.load.energy import Meter
from specdecode.workload.load.engine import EngineSide
from specdecode.workload.load.exchange import Call, Clock, exchange
from specdecode.workload.load.faults import CLIENT_ERROR, CONNECTION, INTERRUPTED
from specdecode.workload.load.heartbeat import Heartbeat
from specdecode.workload.load.journal import SAMPLES, WARM_UP, Journal
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.plan import Plan
from specdecode.workload.load.progress import Progress
from specdecode.workload.load.request import Request
from specdecode.workload.load.resources import Sampler
from specdecode.workload.load.rows import (
    asked_fields,
    details_of,
    due_at,
    record_of,
    request_id,
)
from specdecode.workload.load.spec import LoadSpec

_LEAD_S: Final = 0.05
"""Time between the end of the warm-up and the first request, so that time 0 is not missed."""
_WARM_UP_CLIENTS: Final = 4
_TICK_S: Final = 0.1
_METER_EVERY_S: Final = 30.0


@dataclass
class Outcome:
    """What a run did, beside its rows.

    Attributes:
        started_at: wall-clock time of run time 0.
        stopped: why it ended before the plan did; None when it did not.
        duration_s: run time at which the last exchange was over.
        last_due_s: when the last request was sent or due.
        heartbeat_late_s: by how much the client overslept, each time.
        energy: of `energy.Meter` over the load; None if there was none.
    """

    started_at: datetime
    stopped: str | None = None
    duration_s: float = 0.0
    last_due_s: float = 0.0
    heartbeat_late_s: list[float] = field(default_factory=list)
    energy: dict[str, Any] | None = None


class Runner:
    """Runs a plan once.

    Args:
        spec: of the run.
        plan: what to send.
        journal: where everything goes.
        manifest_sha256: stands in every row.
        api_key: sent as a bearer token, recorded nowhere.
        progress: updated while it runs.
        sampler: load of the machine; None measures none.
        engine: reads what the server says of itself; None reads nothing.
    """

    def __init__(
        self,
        spec: LoadSpec,
        plan: Plan,
        journal: Journal,
        *,
        manifest_sha256: str,
        api_key: str | None = None,
        progress: Progress | None = None,
        sampler: Sampler | None = None,
        engine: EngineSide | None = None,
    ) -> None:
        self._spec, self._plan, self._journal = spec, plan, journal
        self._manifest = manifest_sha256
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self.progress = progress or Progress(total=plan.total)
        self._sampler, self._engine = sampler, engine
        self._stop = asyncio.Event()
        self._why: str | None = None
        self._clock = Clock(time.perf_counter())
        self._started = datetime.now(UTC)
        self._slots = asyncio.Semaphore(spec.max_in_flight) if spec.max_in_flight else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_due = self._last_end = 0.0
        self._bug: BaseException | None = None

    async def run(self) -> Outcome:
        """Warm up, send, wait for what is in flight.

        Returns:
            When every exchange is over and handed to the journal.
        """
        outcome = Outcome(self._started)
        with on_signals(lambda: self._halt(INTERRUPTED)):
            async with Connections(self._spec) as connections:
                if await self._warm_up(connections):
                    outcome = await self._measure(connections)
        if self._bug is not None:
            raise self._bug
        return replace(outcome, stopped=self._why)

    async def _measure(self, connections: Connections) -> Outcome:
        if self._engine is not None:
            await self._engine.look()
        meter = await asyncio.to_thread(Meter)
        self._clock = Clock(time.perf_counter() + _LEAD_S)
        self._started = due_at(datetime.now(UTC), _LEAD_S)
        self.progress.phase = "load"
        heartbeat = Heartbeat(self._clock)
        work = (heartbeat.beat(), self._watch(), self._read_often(meter))
        helpers = [asyncio.create_task(each) for each in work]
        if self._sampler is not None:
            helpers.append(asyncio.create_task(self._sample(self._sampler)))
        try:
            if self._spec.open_loop:
                await self._open_loop(connections)
            else:
                await self._closed_loop(connections)
            self.progress.phase = "ending"
            await self._finish_in_flight()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        await asyncio.to_thread(meter.update)
        if self._engine is not None:
            await self._engine.look()
        return Outcome(
            started_at=self._started,
            duration_s=self._last_end,
            last_due_s=self._last_due,
            heartbeat_late_s=heartbeat.late_s,
            energy=meter.total(),
        )

    async def _open_loop(self, connections: Connections) -> None:
        for request in self._plan.requests:
            due = request.due_s or 0.0
            body = body_of(self._spec, request)  # before it is due, so that making it costs no lag
            if await self._stopped_before(due):
                return
            self._last_due = due
            seen = Observation(due=due)
            self._note_sent(request, seen)
            self._start(self._one(connections, request, body, seen))

    async def _closed_loop(self, connections: Connections) -> None:
        requests = iter(self._plan.requests)
        await asyncio.sleep(max(0.0, -self._clock.now()))
        clients = self._spec.concurrency or 1
        for _ in range(clients):
            self._start(self._client_of_closed_loop(connections, requests))
        await self._finish_in_flight()

    async def _client_of_closed_loop(
        self, connections: Connections, requests: Iterator[Request]
    ) -> None:
        for request in requests:
            body = body_of(self._spec, request)
            now = self._clock.now()
            duration = self._spec.duration_s
            if self._stop.is_set() or (duration is not None and now >= duration):
                return
            self._last_due = max(self._last_due, now)
            seen = Observation(due=now)
            self._note_sent(request, seen)
            await self._one(connections, request, body, seen)
            if self._stop.is_set():
                return

    async def _one(
        self, connections: Connections, request: Request, body: bytes, seen: Observation
    ) -> None:
        """One exchange, recorded whatever happens."""
        asked = self._asked(request, seen)
        try:
            async with self._slot(seen), connections.one() as client:
                await exchange(client, self._call(request, body, seen), seen, self._clock)
        except asyncio.CancelledError:  # while it waited for a free slot
            seen.fault = (INTERRUPTED, "")
        except Exception as error:  # noqa: BLE001 - a fault of ours must be a row, too
            seen.fault = (CLIENT_ERROR, f"{type(error).__name__}: {error}")
        if seen.fault is not None and seen.fault[0] == INTERRUPTED:
            seen.fault = (INTERRUPTED, f"the run was ended: {self._why}")
        seen.ended = self._clock.now() if seen.ended is None else seen.ended
        self._last_end = max(self._last_end, seen.ended)
        told = None if self._engine is None else self._engine.read(seen)
        record = record_of(asked, seen, self._spec, told)
        self._journal.ended(record, details_of(request, record.request_id, seen))
        self.progress.note(seen)
        limit = self._spec.give_up_after
        if limit and self.progress.failures_in_a_row >= limit:
            self._halt(f"{limit} connection failures in a row; the server is gone")
        if self._journal.failure is not None:
            self._halt("rows can no longer be written")

    @contextlib.asynccontextmanager
    async def _slot(self, seen: Observation) -> Any:
        if self._slots is None:
            yield
            return
        began = self._clock.now()
        async with self._slots:
            seen.queued_s = self._clock.now() - began
            yield

    def _asked(self, request: Request, seen: Observation) -> dict[str, Any]:
        when = due_at(self._started, seen.due)
        return asked_fields(self._spec, request, self._manifest, when)

    def _note_sent(self, request: Request, seen: Observation) -> None:
        self.progress.sent += 1
        try:
            self._journal.sent(self._asked(request, seen))
        except OSError as error:
            self._journal.failure = error
            self._halt("rows can no longer be written")

    def _call(self, request: Request, body: bytes, seen: Observation) -> Call:
        name = request_id(self._spec, request)
        return Call(
            url=self._spec.path,
            headers={**self._headers, "X-Request-ID": f"{self._manifest[:8]}/{name}"},
            body=body,
            deadline=seen.due + self._spec.deadline_s,
            cancel_after=request.cancel_after,
            keep_text=self._spec.keep_text,
            keep_ids=self._spec.token_ids,
        )

    async def _warm_up(self, connections: Connections) -> bool:
        """Send the warm-up; False if no request of it met a server."""
        failures: list[tuple[str, str] | None] = []

        async def worker(requests: Iterator[Request]) -> None:
            for request in requests:
                if self._stop.is_set():
                    return
                seen = Observation(due=self._clock.now())
                call = self._call(request, body_of(self._spec, request), seen)
                async with connections.one() as client:
                    await exchange(client, call, seen, self._clock)
                failures.append(seen.fault)
                details = details_of(request, request_id(self._spec, request), seen)
                self._journal.note(WARM_UP, details)

        requests = iter(self._plan.warm_ups)
        for _ in range(_WARM_UP_CLIENTS):
            self._start(worker(requests))
        await self._finish_in_flight()
        found = [fault for fault in failures if fault is not None]
        if found and len(found) == len(failures) and all(f[0] in CONNECTION for f in found):
            self._halt(f"the warm-up found no server: {found[0][0]}: {found[0][1]}")
        return not self._stop.is_set()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._bug = self._bug or error  # a fault of ours that is no row: told, not swallowed
            self._halt("the load client itself failed")

    async def _stopped_before(self, due: float) -> bool:
        """Wait until a run time; True as soon as the run is to stop."""
        left = due - self._clock.now()
        if left > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), left)
        else:
            await asyncio.sleep(0)  # behind schedule: replies must be read all the same
        return self._stop.is_set()

    async def _finish_in_flight(self) -> None:
        """Wait for what is in flight; an interrupted run cuts it off instead."""
        stopping = asyncio.create_task(self._stop.wait())
        while self._tasks and not self._stop.is_set():
            await asyncio.wait({*self._tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(set(self._tasks))

    def _halt(self, why: str) -> None:
        self._why = self._why or why
        self._stop.set()

    async def _watch(self) -> None:
        while True:
            self.progress.now_s = self._clock.now()
            await asyncio.sleep(_TICK_S)

    async def _read_often(self, meter: Meter) -> None:
        while True:
            await asyncio.sleep(_METER_EVERY_S)
            await asyncio.to_thread(meter.update)

    async def _sample(self, sampler: Sampler) -> None:
        for number in itertools.count(1):
            line = await asyncio.to_thread(sampler.sample)
            self._journal.note(SAMPLES, {"t_s": round(self._clock.now(), 3), **line})
            await asyncio.sleep(max(0.0, number * sampler.every_s - self._clock.now()))
