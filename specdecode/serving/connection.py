"""What can be known of a client while it is served: its body, and whether it is still there."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest
from starlette.types import Receive

from specdecode.serving.errors import ApiError

T = TypeVar("T")

_GONE = 499  # what proxies log for a client that went away; nobody reads it


async def read_body(
    http: HttpRequest, most: int, stall_s: float, whole_s: float | None = None
) -> bytes:
    """The body, of at most so many bytes.

    Raises:
        ApiError: it is longer, nothing came for `stall_s` seconds, not all of it came within
            `whole_s` seconds, or the client went away.
    """
    try:
        async with asyncio.timeout(whole_s):
            return await _read_body(http, most, stall_s)
    except TimeoutError as error:
        raise ApiError(408, f"the body had not come within {whole_s:g} s") from error


async def _read_body(http: HttpRequest, most: int, stall_s: float) -> bytes:
    too_long = ApiError(413, f"the body is longer than {most} bytes, this server's limit")
    declared = http.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise too_long
    body = bytearray()
    while True:
        try:
            async with asyncio.timeout(stall_s):
                message = await http.receive()
        except TimeoutError as error:
            raise ApiError(408, f"nothing of the body came for {stall_s:g} s") from error
        if message["type"] == "http.disconnect":
            raise ApiError(_GONE, "the client went away")
        body += message.get("body", b"")
        if len(body) > most:
            raise too_long
        if not message.get("more_body", False):
            return bytes(body)


async def unless_gone(receive: Receive, work: asyncio.Future[T]) -> T:
    """What comes of some work, unless the client goes away first.

    Raises:
        ApiError: it went; the work was given up.
    """
    gone = asyncio.create_task(disconnected(receive))
    either: set[asyncio.Future[Any]] = {work, gone}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
    finally:
        work.cancel()
        gone.cancel()
    raise ApiError(_GONE, "the client went away")


async def disconnected(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
