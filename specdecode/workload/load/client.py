"""The client process: its HTTP connections, and the signals that end it."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self

import httpx

from specdecode.workload.load.spec import LoadSpec


class Connections:
    """As many connections as there are requests in flight, so that all waiting is the server's.

    Each has an HTTP client of its own: the pool of a shared one looks through all its connections
    for every request, which at some hundred of them takes longer than the requests do.

    Proxies and .netrc of the environment are not used: a load test through a proxy measures it.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = spec
        self._tls = ssl.create_default_context()
        self._all: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that nobody else uses; it keeps its connection for the next request."""
        client = self._idle.pop() if self._idle else self._new()
        try:
            yield client
        finally:
            self._idle.append(client)

    def _new(self) -> httpx.AsyncClient:
        spec = self._spec
        client = httpx.AsyncClient(
            verify=self._tls,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            timeout=httpx.Timeout(spec.idle_timeout_s, connect=spec.connect_timeout_s, pool=None),
            trust_env=False,
            follow_redirects=False,
        )
        self._all.append(client)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in self._all:
            await client.aclose()


@contextmanager
def on_signals(halt: Callable[[], None]) -> Iterator[None]:
    """Call `halt` on the first Ctrl-C or TERM; a second one acts as always.

    Outside the main thread signals cannot be caught, and nothing is changed.
    """
    loop = asyncio.get_running_loop()
    caught = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in caught}

    def first() -> None:
        halt()
        release()

    def release() -> None:
        for number in caught:
            loop.remove_signal_handler(number)
            if before[number] is not None:  # the loop would leave the system's own
                signal.signal(number, before[number])

    try:
        for number in caught:
            loop.add_signal_handler(number, first)
    except (RuntimeError, ValueError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        release()
