"""The thread that owns the engine: a bounded queue in front, one loop of steps behind it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence

from specdecode.decoding import Engine
from specdecode.decoding.lengths import MakeLength
from specdecode.decoding.memory import is_out_of_memory, release
from specdecode.decoding.request import Request
from specdecode.decoding.result import finished
from specdecode.decoding.running import Added
from specdecode.drafting.length import FixedLength
from specdecode.errors import NumericalError
from specdecode.serving.errors import ApiError, queue_is_full, shutting_down, too_late
from specdecode.serving.guard import AcceptanceGuard
from specdecode.serving.lengths import DraftLengths
from specdecode.serving.replies import Delta, Drafting, Reply, Watcher

log = logging.getLogger("specdecode.serving")

_LONGEST_RETRY_S = 60
_PROMPT_TOKENS = 1024  # read between two steps, unless one prompt alone is longer
_FADING = 0.9  # of the mean time a reply holds its slot


class Scheduler:
    """Decodes replies together, in the order in which they came.

    Args:
        engine: used by this thread alone from `start` on.
        slots: most replies decoded together.
        queue: most replies that wait.
        deadline_s: seconds a reply may take; None for any.
        watchers: told what happens.
        guard: decides whether a slot drafts; None where the engine decides.
        draft_lengths: most that is drafted, by the number of replies; None for the engine's own.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int,
        queue: int,
        deadline_s: float | None = None,
        watchers: Sequence[Watcher] = (),
        guard: AcceptanceGuard | None = None,
        draft_lengths: DraftLengths | None = None,
    ) -> None:
        self.engine, self._queue, self._deadline_s = engine, queue, deadline_s
        self._slots, self._watchers, self._guard = slots, watchers, guard
        lengths: MakeLength | None = None if guard is None else guard.lengths_of
        if draft_lengths is not None:
            own = lengths or (lambda _request: FixedLength(engine.num_speculative_tokens))
            lengths = draft_lengths.capping(own, lambda: len(self._batch.requests))
        self._batch = engine.open(slots=slots, lengths=lengths)
        self._waiting: deque[Reply] = deque()
        self._running: dict[Request, Reply] = {}
        self._change = threading.Condition()
        self._stopping = self._aborting = False
        self._held_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.failure: str | None = None

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
        """Replies being decoded."""
        return len(self._running)

    def submit(self, replies: Sequence[Reply]) -> None:
        """Queue the replies of one request: all of them or none.

        Raises:
            ApiError: the queue is full, or the server is stopping.
        """
        with self._change:
            if not self.is_ready:
                raise shutting_down()
            # A request larger than the queue is taken where nobody else waits.
            if self._waiting and len(self._waiting) + len(replies) > self._queue:
                raise queue_is_full(len(self._waiting), self._retry_after_s())
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
                self._sweep()
                self._admit()
                self._step()
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
            over = [r for r in (*self._running.values(), *self._waiting) if _is_over(r, moment)]
            self._waiting = deque(r for r in self._waiting if not _is_over(r, moment))
        self._batch.leave([r.request for r in over])
        for reply in over:
            if reply.cancelled:
                self._end(reply, "abort")
            else:
                self._fail(reply, too_late(self._deadline_s or 0.0), "abort")

    def _admit(self) -> None:
        with self._change:
            coming = self._next_ones()
            for reply in coming:
                self._running[reply.request] = reply
        # Prompts that are equal and stand side by side are read once; others one after the other.
        while coming:
            same = [r for r in coming if r.request.prompt == coming[0].request.prompt]
            coming = [r for r in coming if r not in same]
            self._join(same)

    def _next_ones(self) -> list[Reply]:
        """Replies to join before the next step: not so many that running ones stand still."""
        coming: list[Reply] = []
        left, last = _PROMPT_TOKENS, None
        while self._waiting and len(coming) < self._batch.free:
            prompt = self._waiting[0].request.prompt
            left -= 0 if prompt == last else len(prompt)  # several replies share one reading
            if coming and left < 0:
                break
            coming.append(self._waiting.popleft())
            last = prompt
        return coming

    def _join(self, replies: list[Reply]) -> None:
        for reply in replies:
            reply.joined = time.perf_counter()
            for watcher in self._watchers:
                watcher.joined(reply)
        try:
            added = self._batch.join([r.request for r in replies])
        except Exception as error:  # noqa: BLE001 - one request must not end the others
            if len(replies) == 1:
                self._fail(replies[0], self._explained(error))
                return
            for reply in replies:  # perhaps one by one
                del self._running[reply.request]
                self._forget(reply.request)
                reply.request = _restarted(reply.request)
                self._running[reply.request] = reply
                self._join([reply])
            return
        self._hand_out(added)

    def _step(self) -> None:
        if not self._batch.requests:
            return
        rows = len(self._batch.requests)
        plain_s: float | None = None
        begun = time.perf_counter()
        try:
            if self._guard is not None and self._guard.wants_plain_cost(rows):
                plain_s = self._batch.time_plain_step()
                begun = time.perf_counter()
            added = self._batch.step()
        except Exception as error:  # noqa: BLE001 - likewise
            self._lose_one(error)
            return
        seconds = time.perf_counter() - begun
        if self._guard is not None:
            if plain_s is not None:  # what surrounds the stages costs the same either way
                self._guard.plain_cost(rows, plain_s + seconds - self._batch.staged_s)
            self._guard.stepped(rows, seconds)
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
            self._fail(self._running[request], self._explained(error))

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
            held = time.perf_counter() - reply.joined
            before = held if self._held_s is None else self._held_s
            self._held_s = _FADING * before + (1 - _FADING) * held
        for watcher in self._watchers:
            watcher.ended(reply, outcome)

    def _forget(self, request: Request) -> None:
        if self._guard is not None:
            self._guard.forget(request)

    def _retry_after_s(self) -> int:
        """When there should be room, going by how long replies held their slots lately."""
        ahead = len(self._waiting) * (self._held_s or 1.0) / self._slots
        return max(1, min(_LONGEST_RETRY_S, math.ceil(ahead)))

    def _explained(self, error: Exception) -> ApiError:
        if is_out_of_memory(error):
            release()
            return ApiError(
                503,
                "not enough memory for this request beside the others; try again, or ask for less",
                "server_error",
                headers={"Retry-After": str(self._retry_after_s())},
            )
        if isinstance(error, NumericalError):
            return ApiError(500, str(error), "server_error")
        log.error("a request failed", exc_info=error)
        return ApiError(500, "decoding failed; the server's log says why", "server_error")


def _is_over(reply: Reply, moment: float) -> bool:
    return reply.cancelled or (reply.deadline is not None and moment > reply.deadline)


def _restarted(request: Request) -> Request:
    again = request.restarted()
    again.started = request.started
    return again
