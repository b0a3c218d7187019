"""The candidate's reply up to its first byte: until then it can fail without a user noticing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import aiohttp

from specdecode.rollout.ask import Ask
from specdecode.rollout.headers import is_stream
from specdecode.rollout.leg import Leg
from specdecode.rollout.observation import REFUSALS
from specdecode.rollout.sending import send
from specdecode.rollout.upstream import Upstream, pieces, whole
from specdecode.workload.engines import error_of
from specdecode.workload.load.faults import (
    EMPTY,
    IDLE_TIMEOUT,
    STREAM_ERROR,
    Fault,
    class_of_status,
)
from specdecode.workload.sse import EventTooLargeError, SseParser

_QUOTED: Final = 200


@dataclass(frozen=True)
class Begun:
    """A reply that has begun well.

    Attributes:
        reply: status and headers.
        first: of its body; all of it, if it is no stream.
        rest: what comes after that; None if it is no stream.
    """

    reply: aiohttp.ClientResponse
    first: bytes
    rest: AsyncGenerator[bytes, None] | None


@dataclass(frozen=True)
class Failed:
    """No reply, or one that no user should see.

    Attributes:
        fault: why.
        status: of HTTP; None if there was none.
    """

    fault: Fault
    status: int | None = None

    @property
    def error(self) -> str | None:
        """What broke the reply off; None if it came to its end, and its status says the rest."""
        return None if self.status is not None and self.status // 100 != 2 else str(self.fault)

    @property
    def refused(self) -> bool:
        """Whether it may be the request's own fault."""
        return self.status in REFUSALS


async def begin(ask: Ask, candidate: Upstream, leg: Leg, first_byte_s: float) -> Begun | Failed:
    """Ask the candidate, and wait for its first byte; for all of a reply that does not stream.

    Args:
        ask: the request.
        candidate: the server.
        leg: told of all that comes.
        first_byte_s: seconds a stream may take to begin.
    """
    reply: aiohttp.ClientResponse | None = None
    begun = False
    try:
        async with asyncio.timeout(first_byte_s if ask.streaming else None):
            reply = await send(candidate, ask.call, leg)
            leg.headers(reply.status, reply.headers)
            found = await _first(reply, leg)
        begun = isinstance(found, Begun)
    except TimeoutError:
        return Failed(Fault(IDLE_TIMEOUT, f"no first byte within {first_byte_s:g} s"))
    except Fault as fault:
        return Failed(fault, None if reply is None else reply.status)
    finally:
        if reply is not None and not begun:
            reply.close()
    return found


async def _first(reply: aiohttp.ClientResponse, leg: Leg) -> Begun | Failed:
    if reply.status // 100 != 2:
        body = await whole(reply)
        leg.chunk(body, monotonic())
        told = body[:_QUOTED].decode("utf-8", "replace")
        return Failed(Fault(class_of_status(reply.status), f"{reply.status} {told}"), reply.status)
    if is_stream(reply.headers):
        rest = pieces(reply)
        try:
            first = await anext(rest)
        except StopAsyncIteration:
            raise Fault(EMPTY, "the stream ended before its first byte") from None
        leg.chunk(first, monotonic())
        _refuse_error(_first_event(first))
        return Begun(reply, leg.visible(first), rest)
    body = await whole(reply)
    leg.chunk(body, monotonic())
    _refuse_error(_object(body))
    return Begun(reply, body, None)


def _refuse_error(document: Mapping[str, Any] | None) -> None:
    """An error can come under status 200; nothing was sent yet, so it is still one to retry."""
    reported = None if document is None else error_of(document)
    if reported is not None:
        raise Fault(STREAM_ERROR, reported)


def _first_event(piece: bytes) -> Mapping[str, Any] | None:
    if b'"error"' not in piece:
        return None
    try:
        for event in SseParser().feed(piece):
            return None if event.done else _object(event.data.encode("utf-8", "replace"))
    except EventTooLargeError:
        return None
    return None


def _object(body: bytes) -> Mapping[str, Any] | None:
    if b'"error"' not in body:
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
