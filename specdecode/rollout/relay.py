"""A server's reply on its way to the client: the same bytes, as they come, and no sooner ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from specdecode.rollout.headers import is_stream
from specdecode.rollout.leg import Leg
from specdecode.rollout.upstream import pieces, whole
from specdecode.workload.load.faults import Fault

_AT_ONCE: Final = 1 << 20
"""Bytes of a body that is passed on in one piece, with its headers."""


class ClientGoneError(ConnectionError):
    """The client left, or does not read what it is sent."""


class CutError(Exception):
    """The server broke off after its reply had begun; the client's was broken off as well.

    Args:
        fault: what happened.
        response: what the client got of it.
    """

    def __init__(self, fault: Fault, response: web.StreamResponse) -> None:
        super().__init__(str(fault))
        self.fault, self.response = fault, response


async def relay(
    request: web.Request,
    reply: aiohttp.ClientResponse,
    headers: CIMultiDict[str],
    leg: Leg | None,
    stall_s: float,
) -> web.StreamResponse:
    """Pass a reply on whose headers are there.

    Args:
        request: of the client.
        reply: of the server.
        headers: for the client.
        leg: told of every byte; None where nobody keeps a record.
        stall_s: seconds the client may leave data unread.

    Raises:
        Fault: the server broke off before anything was sent to the client.
        CutError: it broke off after that.
        ClientGoneError: the client left.
    """
    if not is_stream(reply.headers) and _is_small(reply) and request.method != "HEAD":
        body = await whole(reply)
        at = monotonic()
        if leg is not None:
            await leg.on_record()
        response = await send_whole(request, reply, headers, body)
        if leg is not None:
            leg.chunk(body, at)
        return response
    return await relay_stream(request, reply, headers, leg, stall_s, rest=pieces(reply))


async def send_whole(
    request: web.Request, reply: aiohttp.ClientResponse, headers: CIMultiDict[str], body: bytes
) -> web.Response:
    """Send a body that is there, to its end: what is noted of it comes after.

    Args:
        request: of the client.
        reply: of the server.
        headers: for the client.
        body: all of it.

    Raises:
        ClientGoneError: the client left.
    """
    response = web.Response(status=reply.status, reason=reply.reason, headers=headers, body=body)
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError as error:
        raise ClientGoneError("the client left") from error
    return response


async def relay_stream(
    request: web.Request,
    reply: aiohttp.ClientResponse,
    headers: CIMultiDict[str],
    leg: Leg | None,
    stall_s: float,
    *,
    rest: AsyncGenerator[bytes, None],
    first: bytes = b"",
) -> web.StreamResponse:
    """Pass pieces on as they come; see `relay`.

    Args:
        request: of the client.
        reply: of the server.
        headers: for the client.
        leg: told of every byte of the rest.
        stall_s: seconds the client may leave data unread.
        rest: what comes of its body.
        first: what was read of it before, and told to the leg.
    """
    if is_stream(reply.headers):
        headers.setdefault("X-Accel-Buffering", "no")
        headers.setdefault("Cache-Control", "no-cache")
    if leg is not None and leg.filters:
        headers.popall("Content-Length", None)
    response = web.StreamResponse(status=reply.status, reason=reply.reason, headers=headers)
    try:
        await response.prepare(request)
        if leg is not None and first:
            await leg.on_record()
        if first:
            await response.write(first)
        async with contextlib.aclosing(rest):
            async for piece in rest:
                at = monotonic()
                passes = piece if leg is None else leg.visible(piece)
                if leg is not None:
                    await leg.on_record()
                if passes:
                    async with asyncio.timeout(stall_s):
                        await response.write(passes)
                if leg is not None:
                    leg.chunk(piece, at)
        if leg is not None and (left := leg.left()):
            await response.write(left)
        await response.write_eof()
    except Fault as fault:
        if leg is not None and (left := leg.left()):
            with contextlib.suppress(ConnectionError):
                await response.write(left)
        cut_off(request)
        raise CutError(fault, response) from fault
    except (ConnectionError, TimeoutError) as error:
        cut_off(request)
        raise ClientGoneError("the client left") from error
    return response


def cut_off(request: web.Request) -> None:
    """Close the connection without an end of the reply, so that nobody takes it for whole."""
    if request.transport is not None:
        request.transport.close()


def _is_small(reply: aiohttp.ClientResponse) -> bool:
    return reply.content_length is not None and reply.content_length <= _AT_ONCE
