"""Sends a trace to a server at its own times, round after round: `python -m pipelines.demo.replay`.

An open loop: a slow server does not slow its users down. Each round has conversations of its own,
so every request is assigned to an arm by itself. What users got is counted by itself, apart from
what the router records, so that one can be held against the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from pipelines.console import say
from pipelines.demo.traffic import TRACE, Asked, read_trace
from specdecode.durable import written_whole
from specdecode.errors import UserError
from specdecode.workload.load.faults import MALFORMED, NO_DONE, Fault
from specdecode.workload.load.payload import read_payload
from specdecode.workload.sse import EventTooLargeError, SseParser

_RECENT = 2000
_TELL_S = 1.0
_PAUSE_S = 1.0
"""Between two rounds: about the gap of a slow moment, so that a round's end is no burst."""


@dataclass(frozen=True)
class ReplaySettings:
    """What is sent where, and for how long.

    Attributes:
        url: base address, of a router or of a server.
        model: name that requests carry.
        speed: times the trace's own; 2 sends it in half its time.
        limit: most requests; None for no end.
        in_flight: most replies waited for; users beyond it are counted as held back and wait.
        reply_s: seconds a user waits for a whole reply.
    """

    url: str
    model: str = "demo"
    speed: float = 1.0
    limit: int | None = None
    in_flight: int = 256
    reply_s: float = 60.0


@dataclass
class Counts:
    """What users got so far.

    Attributes:
        sent: requests.
        replied: whole replies.
        failed: others, by what went wrong.
        arms: whole replies, by the arm that the router says answered.
        retried: whole replies of the baseline after the candidate had failed.
        held_back: requests that waited because too many replies were out.
        seconds: of the newest whole replies.
    """

    sent: int = 0
    replied: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    arms: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    held_back: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def document(self, *, running: bool) -> dict[str, Any]:
        """As JSON; an error rate of None says that nothing was sent yet."""
        ended = self.replied + self.failed.total()
        ordered = sorted(self.seconds)
        return {
            "running": running,
            "sent": self.sent,
            "replied": self.replied,
            "failed": dict(sorted(self.failed.items())),
            "in_flight": self.sent - ended,
            "error_rate": self.failed.total() / ended if ended else None,
            "arms": dict(sorted(self.arms.items())),
            "retried": self.retried,
            "held_back": self.held_back,
            "median_s": ordered[len(ordered) // 2] if ordered else None,
            "p99_s": ordered[int(0.99 * (len(ordered) - 1))] if ordered else None,
        }


def rounds(trace: list[Asked], limit: int | None) -> Iterator[tuple[float, Asked, str]]:
    """(seconds after the start, request, its conversation), without end unless limited."""
    length, left = trace[-1].at_s + _PAUSE_S, limit
    for number in count():
        for asked in trace:
            if left is not None and left <= 0:
                return
            left = None if left is None else left - 1
            yield number * length + asked.at_s, asked, f"{asked.conversation}-r{number}"


class Replay:
    """Sends one trace.

    Args:
        trace: what is asked.
        settings: where it goes.
        out: gets the counts every second and at the end, whole; None writes nothing.
    """

    def __init__(self, trace: list[Asked], settings: ReplaySettings, out: Path | None) -> None:
        self._trace, self._settings, self._out = trace, settings, out
        self.counts = Counts()
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Send nothing more; what is out is waited for."""
        self._stop.set()

    async def run(self) -> Counts:
        """Send, until the limit or `stop`."""
        settings = self._settings
        room = asyncio.Semaphore(settings.in_flight)
        timeout = aiohttp.ClientTimeout(total=settings.reply_s)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as session,
            asyncio.TaskGroup() as tasks,
        ):
            telling = tasks.create_task(self._tell())
            started = time.monotonic()
            users: set[asyncio.Task[None]] = set()
            for due_s, asked, conversation in rounds(self._trace, settings.limit):
                if await self._stopped_within(started + due_s / settings.speed - time.monotonic()):
                    break
                if room.locked():
                    self.counts.held_back += 1
                await room.acquire()
                user = tasks.create_task(self._ask(session, asked, conversation))
                users.add(user)
                user.add_done_callback(users.discard)
                user.add_done_callback(lambda _done: room.release())
            if users:
                await asyncio.wait(users)
            telling.cancel()
        self._write(running=False)
        return self.counts

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), max(0.0, seconds))
        return self._stop.is_set()

    async def _ask(self, session: aiohttp.ClientSession, asked: Asked, conversation: str) -> None:
        self.counts.sent += 1
        body = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": asked.prompt}],
            "max_tokens": asked.max_tokens,
            "temperature": asked.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        headers = {
            "x-specdecode-conversation": conversation,
            "x-specdecode-category": asked.category,
            "x-specdecode-difficulty": asked.difficulty,
            "x-specdecode-language": asked.language,
        }
        began = time.monotonic()
        url = f"{self._settings.url}/v1/chat/completions"
        try:
            async with session.post(url, json=body, headers=headers) as reply:
                if reply.status != 200:
                    self.counts.failed[f"http_{reply.status}"] += 1
                    return
                await _read_to_the_end(reply)
                arm = reply.headers.get("x-specdecode-arm", "unnamed")
                retried = "x-specdecode-retried" in reply.headers
        except TimeoutError:
            self.counts.failed["timeout"] += 1
        except aiohttp.ClientError as error:
            self.counts.failed[f"connection: {type(error).__name__}"] += 1
        except Fault as error:
            self.counts.failed[error.kind] += 1
        except EventTooLargeError:
            self.counts.failed[MALFORMED] += 1
        else:
            self.counts.replied += 1
            self.counts.arms[arm] += 1
            self.counts.retried += retried
            self.counts.seconds.append(time.monotonic() - began)

    async def _tell(self) -> None:
        while True:
            self._write(running=True)
            await asyncio.sleep(_TELL_S)

    def _write(self, *, running: bool) -> None:
        if self._out is not None:
            with written_whole(self._out) as file:
                file.write(json.dumps(self.counts.document(running=running)).encode() + b"\n")


async def _read_to_the_end(reply: aiohttp.ClientResponse) -> None:
    """Reads a stream.

    Raises:
        Fault: it reports an error, or ends without saying that it is whole.
    """
    parser = SseParser()
    async for piece in reply.content.iter_any():
        for event in parser.feed(piece):
            if event.done:
                await reply.read()
                return
            read_payload(event.data)
    raise Fault(NO_DONE, "the stream ended without [DONE]")


async def _run(replay: Replay) -> Counts:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, replay.stop)
    return await replay.run()


def main(argv: list[str] | None = None) -> int:
    """Send a trace; 0 whatever the replies were, since faults are part of the demonstration."""
    own = ReplaySettings("")
    parser = argparse.ArgumentParser(prog="python -m pipelines.demo.replay", description=__doc__)
    parser.add_argument("url", help="base address of the router")
    parser.add_argument("--trace", type=Path, default=TRACE, help=f"default {TRACE.name}")
    parser.add_argument("--model", default=own.model, help="name that requests carry (demo)")
    parser.add_argument("--speed", type=float, default=own.speed, help="times the trace's own (1)")
    parser.add_argument("--limit", type=int, help="most requests (default: no end)")
    parser.add_argument("--out", type=Path, help="file for the counts, written every second")
    options = parser.parse_args(argv)
    if not 0 < options.speed < float("inf") or (options.limit is not None and options.limit < 1):
        parser.error("--speed and --limit must be above 0")
    settings = ReplaySettings(options.url.rstrip("/"), options.model, options.speed, options.limit)
    try:
        replay = Replay(read_trace(options.trace), settings, options.out)
    except UserError as error:
        say(str(error))
        return 2
    counts = asyncio.run(_run(replay))
    sys.stdout.write(json.dumps(counts.document(running=False)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
