"""The thread that owns the engine: a bounded queue in front, one loop of steps behind it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence

from specdecode.decoding import Engine
from specdecode.decoding.joining import Added
from specdecode.decoding.lengths import MakeLength
from specdecode.decoding.memory import is_out_of_memory
from specdecode.decoding.request import Request
from specdecode.decoding.result import finished
from specdecode.drafting.length import FixedLength
from specdecode.errors import NumericalError
from specdecode.serving.errors import ApiError, explained, queue_is_full, shutting_down, too_late
from specdecode.serving.guard import AcceptanceGuard
from specdecode.serving.lengths import DraftLengths
from specdecode.serving.replies import Delta, Drafting, Reply, Watcher
from specdecode.serving.stepping import timed_step
from specdecode.serving.turnover import Turnover

log = logging.getLogger("specdecode.serving")


class Scheduler:
    """Decodes replies together, in the order in which they came.

    Args:
        engine: used by this thread alone from `start` on.
        slots: most replies decoded together.
        queue: most replies that wait.
        prefill_chunk: most prompt tokens of newcomers that are read between two steps.
        deadline_s: seconds a reply may take; None for any.
        watchers: told what happens.
        guard: decides whether a slot drafts; None where the engine decides.
        draft_lengths: most that is drafted, by the number of replies; None for the engine's own.

    Attributes:
        failure: why the thread ended; None while it runs.
        cache_tokens: tokens whose keys and values are in use, as of the last step.
        cache_bytes, draft_cache_bytes: memory of the target's and of the draft's own, likewise.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int,
        queue: int,
        prefill_chunk: int,
        deadline_s: float | None = None,
        watchers: Sequence[Watcher] = (),
        guard: AcceptanceGuard | None = None,
        draft_lengths: DraftLengths | None = None,
    ) -> None:
        self.engine, self._queue, self._deadline_s = engine, queue, deadline_s
        self._turnover, self._watchers, self._guard = Turnover(slots), watchers, guard
        self._prefill_chunk, self._draft_lengths = prefill_chunk, draft_lengths
        lengths: MakeLength | None = None if guard is None else guard.lengths_of
        if draft_lengths is not None:
            own = lengths or (lambda _request: FixedLength(engine.num_speculative_tokens))
            lengths = draft_lengths.capping(own, lambda: len(self._batch.requests))
        self._batch = engine.open(slots=slots, lengths=lengths)
        self._waiting, self._alone = deque[Reply](), deque[Reply]()  # alone: cannot join together
        self._running: dict[Request, Reply] = {}
        self._change = threading.Condition()
        self._stopping = self._aborting = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.failure: str | None = None
        self.cache_tokens = self.cache_bytes = self.draft_cache_bytes = 0

    def start(self) -> None:
        """Begin to decode."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether new requests are taken."""
        return self.is_alive and not self._stopping

    @property
    def waiting(self) -> int:
        """Replies in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Replies that have a slot: their prompts are read, or they are decoded."""
        return len(self._running)

    def check_room(self, replies: int = 1) -> None:
        """See whether so many replies would be taken now.

        Raises:
            ApiError: the queue is full, or the server is stopping.
        """
        if self._stopping:
            raise shutting_down()
        # A request larger than the queue is taken where nobody else waits.
        if self._waiting and len(self._waiting) + replies > self._queue:
            raise queue_is_full(len(self._waiting), self._retry_after_s())

    def submit(self, replies: Sequence[Reply]) -> None:
        """Queue the replies of one request: all of them or none.

        Raises:
            ApiError: see `check_room`.
        """
        with self._change:
            self.check_room(len(replies))
            for reply in replies:
                reply.request.started = reply.arrived
                if self._deadline_s is not None:
                    reply.deadline = reply.arrived + self._deadline_s
            self._waiting.extend(replies)
            self._change.notify()

    def cancel(self, replies: Sequence[Reply]) -> None:
        """Nobody waits for these any more; their slots are free from the next step on."""
        with self._change:
            for reply in replies:
                reply.cancelled = True
            self._change.notify()

    def stop(self, *, finish: bool, timeout_s: float | None = None) -> bool:
        """Take no more requests; finish those that were accepted, or cut them off.

        Returns:
            Whether the thread has ended.
        """
        with self._change:
            self._stopping = True
            self._aborting |= not finish
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._has_work():
                self.turn()
        except BaseException as error:
            self.failure = f"{type(error).__name__}: {error}"
            log.critical("the engine's thread ended", exc_info=error)
            raise
        finally:
            with self._change:
                self._stopping = True
                left = [*self._running.values(), *self._waiting]
                self._waiting.clear()
            for reply in left:
                self._fail(reply, shutting_down())

    def turn(self) -> None:
        """One turn of the thread's loop, for those that run it without the thread."""
        self._sweep()
        self._admit()
        self._step()
        self.cache_tokens, self.cache_bytes = self._batch.cache_tokens, self._batch.cache_bytes
        self.draft_cache_bytes = self._batch.draft_cache_bytes

    def _has_work(self) -> bool:
        """Wait for something to do; False once there is nothing more and never will be."""
        with self._change:
            while not (self._waiting or self._running or self._stopping):
                self._change.wait()
            return not self._aborting and bool(self._waiting or self._running)

    def _sweep(self) -> None:
        """Let go of what nobody waits for, and of what is too late."""
        moment = time.perf_counter()
        with self._change:
            over = [r for r in (*self._running.values(), *self._waiting) if r.is_over(moment)]
            self._waiting = deque(r for r in self._waiting if not r.is_over(moment))
        self._batch.leave([r.request for r in over])
        for reply in over:
            if reply.cancelled:
                self._end(reply, "abort")
            else:
                self._fail(reply, too_late(self._deadline_s or 0.0), "abort")

    def _admit(self) -> None:
        """Read in the prompts of newcomers: no more than running replies can wait for."""
        left = self._prefill_chunk
        while left > 0 and (self._batch.reading or self._start()):
            unread, draft_s = self._batch.unread, self._batch.draft_read_s
            reading = [self._running[request] for request in self._batch.reading]
            try:
                added = self._batch.read(left)
            except Exception as error:  # noqa: BLE001 - one request must not end the others
                self._could_not_join(reading, error)
                return
            left -= unread - self._batch.unread
            if self._guard is not None:
                self._guard.read(self._batch.draft_read_s - draft_s)
            if added:
                for watcher in self._watchers:
                    watcher.joined(reading)
                self._hand_out(added)

    def _start(self) -> bool:
        """Give the next replies slots; those that stand side by side with one prompt share it."""
        while self._alone and self._alone[0].request not in self._running:
            self._alone.popleft()  # over before its turn came
        with self._change:
            coming = [self._alone.popleft()] if self._alone else self._next_ones()
            self._running.update({reply.request: reply for reply in coming})
        for reply in coming:
            if reply.joined is None:
                reply.joined = time.perf_counter()
        self._batch.start([reply.request for reply in coming], draft_reads=self._may_draft())
        return bool(coming)

    def _may_draft(self) -> bool:
        if self._draft_lengths is not None and not self._draft_lengths.at(len(self._running)):
            return False
        return self._guard is None or self._guard.is_drafting

    def _next_ones(self) -> list[Reply]:
        free, coming = self._batch.free, list[Reply]()
        while self._waiting and len(coming) < free:
            if coming and self._waiting[0].request.prompt != coming[0].request.prompt:
                break
            coming.append(self._waiting.popleft())
        return coming

    def _could_not_join(self, replies: list[Reply], error: Exception) -> None:
        if len(replies) == 1:
            self._fail(replies[0], explained(error, self._retry_after_s()))
            return
        for reply in replies:
            del self._running[reply.request]
            self._forget(reply.request)
            reply.restart()
            self._running[reply.request] = reply
            self._alone.append(reply)
            for watcher in self._watchers:
                watcher.restarted(reply)

    def _step(self) -> None:
        if not self._batch.requests:
            return
        try:
            added, seconds = timed_step(self._batch, self._guard)
        except Exception as error:  # noqa: BLE001 - likewise
            self._lose_one(error)
            return
        replies = [self._running[request] for request, _ in added]
        for watcher in self._watchers:
            watcher.stepped(replies, seconds)
        self._hand_out(added)

    def _lose_one(self, error: Exception) -> None:
        """A step failed: go on without the request at fault, or without all if nobody knows."""
        requests = list(self._batch.requests)
        if isinstance(error, NumericalError) and error.row is not None:
            lost = requests[error.row : error.row + 1] or requests
        else:
            lost = requests[-1:] if is_out_of_memory(error) else requests
        log.error("a step failed; %d of %d replies end", len(lost), len(requests), exc_info=error)
        self._batch.leave(lost)
        for request in lost:
            self._fail(self._running[request], explained(error, self._retry_after_s()))

    def _hand_out(self, added: Added) -> None:
        gamma = self.engine.num_speculative_tokens
        for request, tokens in added:
            reply = self._running[request]
            logprobs = tuple(request.logprobs[reply.told :])
            reply.told += len(tokens)
            if request.finish_reason is None:
                reply.deliver(Delta(tuple(tokens), logprobs))
                continue
            switches = () if self._guard is None else self._guard.switches_of(request)
            self._end(reply, request.finish_reason)
            result = finished(request, gamma, trace=False)
            drafting = Drafting.of(request, gamma, switches)
            reply.deliver(Delta(tuple(tokens), logprobs, result, drafting))

    def _fail(self, reply: Reply, error: ApiError, outcome: str = "error") -> None:
        self._end(reply, outcome)
        reply.deliver(Delta(error=error))

    def _end(self, reply: Reply, outcome: str) -> None:
        self._running.pop(reply.request, None)
        self._forget(reply.request)
        if reply.joined is not None:
            self._turnover.ended(time.perf_counter() - reply.joined)
        for watcher in self._watchers:
            watcher.ended(reply, outcome)

    def _forget(self, request: Request) -> None:
        if self._guard is not None:
            self._guard.forget(request)

    def _retry_after_s(self) -> int:
        return self._turnover.retry_after_s(len(self._waiting))
