"""Copies of live requests for the candidate: few at a time, first to give way, never waited for.

A copy is worth less than any answer to a user. So copies wait in a short queue from which the
oldest is shed when it is full, a bounded number is in flight, and offering one costs the user
nothing: it neither blocks nor raises. What is shed was the router's choice, so it is no failure of
the candidate: it is counted, and written down in the spool, by which a reader leaves out the
baseline's row of the pair.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from specdecode.errors import ConfigError
from specdecode.measurement.records import Record
from specdecode.rollout.copies import Copy, CopyRules, parsed_body, why_not_copied
from specdecode.rollout.mirror_counts import SHED, MirrorCounts
from specdecode.rollout.mirror_spool import MirrorSpool, NoRow

__all__ = ["Copy", "Mirror", "MirrorCounts", "MirrorSpool", "NoRow", "Send", "When"]

log = logging.getLogger("specdecode.rollout")

When = Literal["now", "idle"]
Send = Callable[[Copy], Awaitable[Record | NoRow]]
"""Asks the candidate, reads its reply to the end, and tells its row; a failure is a row too."""

_POLL_S: Final = 0.05
"""How often an idle baseline is looked for while copies wait and nobody says that it is."""
_LET_GO_S: Final = 5.0
"""How long a copy that is cancelled may take to close its connection."""


class Mirror:
    """Sends copies; made and used in one event loop.

    Args:
        send: asks the candidate. It is cancelled only when the mirror stops or `deadline_s` is up.
        spool: gets the candidate's rows, and what was shed.
        in_flight: most copies that are being answered at a time.
        queue: most copies that wait; one more sheds the oldest.
        when: "now" sends at once; "idle" waits until the baseline is.
        is_idle: whether the baseline is idle; asked in "idle" only. Call `wake` when it becomes so.
        max_body_bytes: larger requests are not copied.
        max_wait_s: a copy that waited longer is shed: what it would be compared with was measured
            under other conditions.
        deadline_s: a reply that is not whole by then is the candidate's failure.
        rules: how a request becomes a copy.

    Attributes:
        counts: what became of what was offered.

    Raises:
        ConfigError: a limit that would let nothing through.
    """

    def __init__(
        self,
        send: Send,
        spool: MirrorSpool,
        *,
        in_flight: int = 8,
        queue: int = 64,
        when: When = "now",
        is_idle: Callable[[], bool] = lambda: True,
        max_body_bytes: int = 1 << 20,
        max_wait_s: float = 300.0,
        deadline_s: float = 600.0,
        rules: CopyRules | None = None,
    ) -> None:
        limits = {
            "in_flight": in_flight, "queue": queue, "max_body_bytes": max_body_bytes,
            "max_wait_s": max_wait_s, "deadline_s": deadline_s,
        }  # fmt: skip
        for name, value in limits.items():
            if not value > 0:
                raise ConfigError(f"mirror: {name} is {value}; it must be above 0")
        if when not in ("now", "idle"):
            raise ConfigError(f"mirror: when is {when!r}; it must be 'now' or 'idle'")
        self.counts = MirrorCounts()
        self._send, self._spool, self._rules = send, spool, rules or CopyRules()
        self._in_flight, self._queue, self._max_body_bytes = in_flight, queue, max_body_bytes
        self._max_wait_s, self._deadline_s = max_wait_s, deadline_s
        self._when, self._is_idle = when, is_idle
        self._waiting: deque[tuple[float, Copy]] = deque()
        self._tasks: dict[asyncio.Task[None], Copy] = {}
        self._wake = asyncio.Event()
        self._stopping, self._cut = False, False

    @property
    def waiting(self) -> int:
        """Copies in the queue."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Copies that are being answered."""
        return len(self._tasks)

    def expect(self, path: str, share: float) -> None:
        """A request came of which this share is to be copied; shows a mirror that never fires."""
        self.counts.expected[path] += share

    def offer(self, copy: Copy) -> bool:
        """Take a copy, or don't; never blocks, never raises.

        Returns:
            Whether it was taken. The baseline's row belongs to the shadow's stage only then; a copy
            that was taken may still be shed, which the spool is told.
        """
        try:
            self.counts.offered[copy.path] += 1
            try:
                return self._take(copy)
            except Exception:
                self._shed(copy, "broken")
                raise
        except Exception:  # noqa: BLE001 - a user is being answered
            self._broke("a copy was not taken")
            return False

    def withheld(self, asked: Mapping[str, Any], why: str) -> None:
        """A copy that was to be made is not offered at all; whoever reads the spool has to know.

        Args:
            asked: as of a copy.
            why: for people.
        """
        try:
            self._tell(asked, "shed", why)
        except Exception:  # noqa: BLE001 - a user is being answered
            self._broke("a copy that was not offered could not be written down")

    def wake(self) -> None:
        """Look again whether copies may be sent, such as when the baseline has become idle."""
        self._wake.set()

    def shed_waiting(self, why: str = "state") -> int:
        """Shed what waits: what was offered under one state is not sent under another.

        Args:
            why: a word of `mirror_counts.SHED`.

        Returns:
            How many copies that were.
        """
        shed = len(self._waiting)
        while self._waiting:
            self._shed(self._waiting.popleft()[1], why)
        return shed

    async def run(self) -> None:
        """Send what is offered, until `stop`."""
        while not self._stopping:
            self._wake.clear()
            self._send_what_may()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_again_s()):
                    await self._wake.wait()

    async def stop(self, finish_s: float) -> None:
        """Take no more; finish what is in flight. Whatever is left then is shed. May be repeated.

        Args:
            finish_s: seconds that replies have to end.
        """
        self._stopping = True
        self.wake()
        self.shed_waiting("stopped")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0.0, finish_s))
        self._cut = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LET_GO_S)
        if self._tasks:
            log.error("mirror: %d copies do not let themselves be cancelled", len(self._tasks))

    def to_json(self) -> dict[str, Any]:
        """Counts and the present, for the router's health."""
        oldest = time.monotonic() - self._waiting[0][0] if self._waiting else None
        return self.counts.to_json() | {
            "waiting": self.waiting,
            "in_flight": self.in_flight,
            "oldest_waits_s": None if oldest is None else round(oldest, 3),
        }

    def _take(self, copy: Copy) -> bool:
        try:
            refused, shed = self._why_not(copy)
        except ValueError:
            refused, shed = None, "malformed"
        if refused is not None:
            self.counts.refused[refused] += 1
            self._tell_no_row(copy, "shed", f"not copied: {refused}")
            return False
        if shed is not None:
            self._shed(copy, shed)
            return False
        kept = replace(copy, headers=self._rules.without_the_user(copy.headers))
        if len(self._waiting) >= self._queue:
            self._shed(self._waiting.popleft()[1], "full")
        if kept.partner is not None:
            self._spool.queued(kept.asked, kept.partner)
        self._waiting.append((time.monotonic(), kept))
        self.wake()
        return True

    def _why_not(self, copy: Copy) -> tuple[str | None, str | None]:
        """Why a copy would do harm, or else why it is not sent."""
        if self._stopping:
            return None, "stopped"
        if not self._spool.recording:
            return None, "recording"
        if len(copy.body) > self._max_body_bytes:
            return None, "size"
        return why_not_copied(copy.path, parsed_body(copy)), None

    def _look_again_s(self) -> float | None:
        """When to look without being woken; None is never."""
        if not self._waiting:
            return None
        if self._when == "idle" and len(self._tasks) < self._in_flight:
            return _POLL_S
        return self._max_wait_s

    def _send_what_may(self) -> None:
        now = time.monotonic()
        while self._waiting and now - self._waiting[0][0] > self._max_wait_s:
            self._shed(self._waiting.popleft()[1], "old")
        while self._waiting and len(self._tasks) < self._in_flight and self._has_its_turn():
            copy = self._waiting.popleft()[1]
            task = asyncio.create_task(self._answer(copy))
            self._tasks[task] = copy
            task.add_done_callback(self._over)

    def _has_its_turn(self) -> bool:
        if self._when == "now":
            return True
        try:
            return self._is_idle()
        except Exception:  # noqa: BLE001 - whoever doesn't know is not idle
            self._broke("is_idle failed")
            return False

    def _over(self, task: asyncio.Task[None]) -> None:
        """Whatever ended it, the copy is counted."""
        copy = self._tasks.pop(task)
        self.wake()
        if task.cancelled():
            self._shed(copy, "stopped" if self._cut else "broken")
        elif (error := task.exception()) is not None:
            self._broke("a copy was lost", error)
            self._shed(copy, "broken")

    async def _answer(self, copy: Copy) -> None:
        """One copy from its beginning to its row."""
        if copy.after is not None:
            await asyncio.wait([copy.after])
        if not self._spool.recording:
            self._shed(copy, "recording")
            return
        asked = {**copy.asked, "started_at": datetime.now(UTC)}  # it may have waited
        ready = replace(self._rules.ready(copy), asked=asked)
        self._spool.begin(asked)
        self.counts.sent[copy.path] += 1
        record = await self._asked(ready)
        if self._cut:  # the router cut it off, whatever was made of that
            self._shed(copy, "stopped")
            return
        if isinstance(record, NoRow):
            self._tell_no_row(copy, *record)
            self.counts.unjudged += 1
            return
        self._spool.append(record)
        self.counts.ended += 1
        self.counts.failed += record.error is not None

    async def _asked(self, copy: Copy) -> Record | NoRow:
        try:
            async with asyncio.timeout(self._deadline_s) as patience:
                return await self._send(copy)
        except TimeoutError:
            if not patience.expired():
                raise
            late = f"deadline: the reply was not whole after {self._deadline_s:g} s"
            return Record.model_validate({**copy.asked, "error": late})

    def _shed(self, copy: Copy, why: str) -> None:
        said = SHED[why]
        self.counts.shed[why] += 1
        self._tell_no_row(copy, "shed", said)

    def _tell_no_row(self, copy: Copy, kind: str, why: str) -> None:
        retract = () if copy.partner is None else (copy.partner,)
        try:
            self._tell(copy.asked, kind, why, retract)
        except Exception:  # noqa: BLE001 - counted; the spool says itself that it is broken
            self._broke("a copy without a row could not be written down")

    def _tell(
        self, asked: Mapping[str, Any], kind: str, why: str, retract: Sequence[str] = ()
    ) -> None:
        about = {name: asked.get(name) for name in ("stage", "manifest_sha256")}
        self._spool.without_row(kind, asked["request_id"], why, retract=retract, **about)

    def _broke(self, what: str, error: BaseException | None = None) -> None:
        self.counts.broken += 1
        log.error("mirror: %s", what, exc_info=error or True)
