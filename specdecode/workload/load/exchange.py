"""One request and its streamed reply over HTTP, with the time of everything that happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from specdecode.workload.load.faults import (
    DEADLINE,
    EMPTY,
    INTERRUPTED,
    MALFORMED,
    NO_DONE,
    NOT_A_STREAM,
    TRUNCATED,
    Fault,
    class_of_status,
    from_httpx,
)
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.payload import Payload, count, read_payload
from specdecode.workload.sse import EventTooLargeError, SseParser

_ERROR_BYTES: Final = 4096
_DRAIN_S: Final = 0.25
"""How long a stream may take to end after [DONE], so that its connection can be used again."""
_KEPT_EVENTS: Final = 4

Trace = Callable[[str, Any], Awaitable[None]]
"""Told what the HTTP library does with a connection."""


@dataclass(frozen=True)
class Clock:
    """Seconds since the start of a run, monotonic."""

    zero: float

    def now(self) -> float:
        """Seconds since the start; negative before it."""
        return time.perf_counter() - self.zero


@dataclass(frozen=True)
class Call:
    """What is sent, and when the client stops waiting.

    Args:
        url: address.
        headers: to send; they may hold a key and are never recorded.
        body: JSON.
        deadline: run time after which the reply is given up.
        cancel_after: chunks with output after which the stream is closed; None reads to the end.
        keep_text: keep the reply's text.
        keep_ids: keep its token ids, where the server sends them.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    deadline: float
    cancel_after: int | None
    keep_text: bool
    keep_ids: bool


async def exchange(client: httpx.AsyncClient, call: Call, seen: Observation, clock: Clock) -> None:
    """Send, read, and fill in `seen`; whatever goes wrong ends up there and is not raised.

    A task that is cancelled records the interruption and ends normally, so that its row is kept.
    """
    seen.sent = clock.now()
    fault: Fault | None = None
    try:
        async with asyncio.timeout(call.deadline - clock.now()):
            await _ask(client, call, seen, clock)
    except TimeoutError:
        late = f"not finished {call.deadline - seen.due:.1f} s after it was due"
        fault = _unless_done(seen, Fault(DEADLINE, late))
    except asyncio.CancelledError:
        fault = _unless_done(seen, Fault(INTERRUPTED, "the run was interrupted"))
    except httpx.HTTPError as error:
        fault = from_httpx(error)
    except EventTooLargeError as error:
        fault = Fault(MALFORMED, str(error))
    except Fault as error:
        fault = error
    seen.ended = seen.ended if seen.ended is not None and fault is None else clock.now()
    if fault is not None:
        seen.fault = (fault.kind, fault.detail)
        seen.retry_after = fault.retry_after


def _unless_done(seen: Observation, fault: Fault) -> Fault | None:
    """None once [DONE] was read: the reply is whole, and only the wait for its end was cut."""
    return fault if seen.ended is None else None


async def _ask(client: httpx.AsyncClient, call: Call, seen: Observation, clock: Clock) -> None:
    """One reply; once more if the connection turns out to have been closed while it was idle.

    A server may close an idle connection just as it is used again, and some do so after every
    stream without a word. That is no failure of theirs. A connection that was new, or on which
    part of a reply came, is never asked again.
    """
    reused = True

    async def trace(event: str, _info: object) -> None:
        nonlocal reused
        reused = reused and event != "connection.connect_tcp.started"

    try:
        await _stream(client, call, seen, clock, trace)
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        if not reused or seen.headers is not None:
            raise
        seen.asked_again = True
        await _stream(client, call, seen, clock, trace)


async def _stream(
    client: httpx.AsyncClient, call: Call, seen: Observation, clock: Clock, trace: Trace
) -> None:
    async with client.stream(
        "POST", call.url, content=call.body, headers=call.headers, extensions={"trace": trace}
    ) as response:
        seen.headers = clock.now()
        seen.status_code = response.status_code
        await _refuse_what_is_no_stream(response)
        async with contextlib.aclosing(_pieces(response)) as pieces:
            await _read(pieces, call, seen, clock)
    if not (seen.chunk_times or seen.finish_reason or seen.cancelled):
        raise Fault(EMPTY, "the stream was whole but held no output")


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Bytes as they arrive, decompressed; may be closed early, as httpx's own type does not say."""
    async for piece in response.aiter_bytes():
        yield piece


async def _read(
    pieces: AsyncGenerator[bytes, None], call: Call, seen: Observation, clock: Clock
) -> None:
    """Read up to [DONE], or until the stream is to be cancelled.

    Raises:
        Fault: the stream ended without [DONE], or an event of it is an error.
    """
    parser, told = SseParser(), _Told()
    async for piece in pieces:
        now = clock.now()
        for event in parser.feed(piece):
            if event.done:
                seen.ended = now
                await _drain(pieces)
                return
            _note(read_payload(event.data), call, seen, now, told)
            if call.cancel_after is not None and len(seen.chunk_times) >= call.cancel_after:
                seen.cancelled = True  # the caller closes the connection
                return
    left = parser.close()
    if left is None:
        raise Fault(NO_DONE, "the stream ended without [DONE]; the reply may be cut off")
    if not left.done:  # else only the blank line after [DONE] is missing
        raise Fault(TRUNCATED, f"the stream ended inside an event: {left.data[:200]}")


async def _drain(pieces: AsyncGenerator[bytes, None]) -> None:
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in pieces:
                pass


async def _refuse_what_is_no_stream(response: httpx.Response) -> None:
    kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
    good = 200 <= response.status_code < 300
    if good and kind in ("text/event-stream", ""):
        return
    start = b""
    async for piece in response.aiter_bytes():
        start += piece
        if len(start) >= _ERROR_BYTES:
            break
    text = _message(start[:_ERROR_BYTES].decode("utf-8", errors="replace"))
    if good:
        raise Fault(NOT_A_STREAM, f"content type {kind!r}: {text}")
    raise Fault(
        class_of_status(response.status_code),
        f"HTTP {response.status_code}: {text}",
        retry_after=response.headers.get("retry-after"),
    )


def _message(text: str) -> str:
    """The message of an error body, or its beginning."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        found = json.loads(text)
        error = found.get("error", found)
        message = error.get("message") if isinstance(error, dict) else error
        if isinstance(message, str):
            return message[:500]
    return " ".join(text.split())[:200]


@dataclass
class _Told:
    """Tokens of the reply that the server has counted so far; None once it left one out."""

    tokens: int | None = 0


def _note(payload: Payload, call: Call, seen: Observation, now: float, told: _Told) -> None:
    if payload.output:
        so_far = count(payload.usage, "completion_tokens")
        tokens = payload.tokens
        if tokens is None and so_far is not None and told.tokens is not None:
            tokens = so_far - told.tokens  # servers that count along in every event
        told.tokens = so_far
        seen.chunk_times.append(now)
        seen.chunk_tokens.append(tokens)
        if call.keep_text:
            seen.text.append(payload.text)
        if call.keep_ids and payload.token_ids is not None:
            seen.token_ids = seen.token_ids or []
            seen.token_ids += payload.token_ids
    if call.keep_ids and payload.prompt_token_ids is not None:
        seen.prompt_token_ids = payload.prompt_token_ids
    if payload.finish_reason is not None:
        seen.finish_reason = payload.finish_reason
    if payload.output or payload.finish_reason is not None:
        seen.last = now
    if payload.usage is not None:
        seen.usage = payload.usage
    seen.last_payloads = [*seen.last_payloads, payload.raw][-_KEPT_EVENTS:]
