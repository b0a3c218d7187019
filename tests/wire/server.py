"""An HTTP server on loopback that follows a script, byte by byte.

Nothing tidies up what it sends: a reply that ends in the middle of a chunk ends there on the wire.
It runs in a thread of its own, so tests may be synchronous or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pause:
    """Send nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """Break the connection, so that the client's next read fails."""


Script = Sequence[bytes | Pause | Reset]


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Handler = Callable[[Request], Script]
Routes = Mapping[tuple[str, str], Script | Handler]


def in_turn(*scripts: Script) -> Handler:
    """A different script each time; the last one for ever."""
    left = list(scripts)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class WireServer:
    """Serves while in a `with` block.

    Args:
        routes: script by method and path (query included); anything else is 404.

    Attributes:
        requests: all that clients sent, in order.
        gone: how many clients left before their script was over.
    """

    def __init__(self, routes: Routes) -> None:
        self.routes = dict(routes)
        self.requests: list[Request] = []
        self.gone = 0
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> WireServer:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def asked(self, path: str) -> list[Request]:
        return [r for r in self.requests if r.path == path]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await _read(reader)
            self.requests.append(request)
            await self._follow(self._script(request), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone += 1
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def _script(self, request: Request) -> Script:
        found = self.routes.get((request.method, request.path), NOT_FOUND)
        return found(request) if callable(found) else found

    async def _follow(self, script: Script, writer: asyncio.StreamWriter) -> None:
        for step in script:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            elif isinstance(step, Reset):
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
                writer.transport.abort()
                return
            else:
                writer.write(step)
                await writer.drain()
                await asyncio.sleep(0)  # so that each step is a write of its own


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


NOT_FOUND: Script = (
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 22\r\nConnection: close\r\n"
    b'Content-Type: application/json\r\n\r\n{"detail":"Not Found"}',
)
