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
from specdecode.workload.load.exchange import Clock, exchange
from specdecode.workload.load.faults import CONNECTION, INTERRUPTED
from specdecode.workload.load.heartbeat import Heartbeat
from specdecode.workload.load.journal import SAMPLES, WARM_UP, Journal
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.plan import Plan
from specdecode.workload.load.progress import Progress
from specdecode.workload.load.request import Request
from specdecode.workload.load.resources import Sampler
from specdecode.workload.load.rows import details_of, due_at, request_id
from specdecode.workload.load.sending import Sender, Stop
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
        self.progress = progress or Progress(total=plan.total)
        self._sampler, self._engine, self._stop = sampler, engine, Stop()
        self._sender = Sender(
            spec,
            journal,
            manifest_sha256=manifest_sha256,
            api_key=api_key,
            progress=self.progress,
            engine=engine,
            stop=self._stop,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_due = 0.0
        self._bug: BaseException | None = None

    @property
    def _clock(self) -> Clock:
        return self._sender.clock

    async def run(self) -> Outcome:
        """Warm up, send, wait for what is in flight.

        Returns:
            When every exchange is over and handed to the journal.
        """
        outcome = Outcome(self._sender.started)
        with on_signals(lambda: self._stop.set(INTERRUPTED)):
            kept = self._engine is None or self._engine.keeps_connections
            async with Connections(self._spec, kept=kept) as connections:
                if await self._warm_up(connections):
                    outcome = await self._measure(connections)
        if self._bug is not None:
            raise self._bug
        return replace(outcome, stopped=self._stop.why)

    async def _measure(self, connections: Connections) -> Outcome:
        if self._engine is not None:
            await self._engine.look()
        meter = await asyncio.to_thread(Meter)
        self._sender.clock = Clock(time.perf_counter() + _LEAD_S)
        self._sender.started = due_at(datetime.now(UTC), _LEAD_S)
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
            started_at=self._sender.started,
            duration_s=self._sender.last_end_s,
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
            self._sender.note(request, seen)
            self._start(self._sender.send(connections, request, body, seen))

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
            self._sender.note(request, seen)
            await self._sender.send(connections, request, body, seen)
            if self._stop.is_set():
                return

    async def _warm_up(self, connections: Connections) -> bool:
        """Send the warm-up; False if no request of it met a server."""
        failures: list[tuple[str, str] | None] = []

        async def worker(requests: Iterator[Request]) -> None:
            for request in requests:
                if self._stop.is_set():
                    return
                seen = Observation(due=self._clock.now())
                call = self._sender.call(request, body_of(self._spec, request), seen)
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
            self._stop.set(f"the warm-up found no server: {found[0][0]}: {found[0][1]}")
        return not self._stop.is_set()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._bug = self._bug or error  # a fault of ours that is no row: told, not swallowed
            self._stop.set("the load client itself failed")

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
