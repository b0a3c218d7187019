"""The client process: its HTTP connections, and the signals that end it."""

from __future__ import annotations

import asyncio
import resource
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

import httpx

from specdecode.errors import ConfigError
from specdecode.workload.load.spec import LoadSpec

_OTHER_FILES: Final = 64
"""Files that are open beside the connections."""


def make_room(connections: int | None) -> None:
    """Let this process open as many files as it may; each connection is one.

    Args:
        connections: most at once; None when nobody knows.

    Raises:
        ConfigError: they are more than it may ever open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, 2**16)
    if connections is not None and connections + _OTHER_FILES > hard:
        raise ConfigError(
            f"{connections} connections at once are more than the {hard} open files that this "
            "process may have allow; raise the limit (ulimit -n), or ask for fewer"
        )
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def usable_key(api_key: str | None) -> str | None:
    """The key as it can stand in a header; None without one.

    Raises:
        ConfigError: it cannot. What finds that out later would show the key, and rows record it.
    """
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key has characters that no header may hold; check its variable")
    return key or None


class Connections:
    """As many connections as there are requests in flight, so that all waiting is the server's.

    Each has an HTTP client of its own: the pool of a shared one looks through all its connections
    for every request, which at some hundred of them takes longer than the requests do.

    Proxies and .netrc of the environment are not used: a load test through a proxy measures it.

    Args:
        spec: of the run.
        kept: whether a connection serves one request after another. A server that closes it after
            a reply would lose the next request, which nothing may send twice.
    """

    def __init__(self, spec: LoadSpec, *, kept: bool = True) -> None:
        self._spec = spec
        self._kept = int(kept)
        self._tls = httpx.create_ssl_context()
        self._all: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that nobody else uses; it may keep its connection for the next request."""
        client = self._idle.pop() if self._idle else self._new()
        try:
            yield client
        finally:
            self._idle.append(client)

    def _new(self) -> httpx.AsyncClient:
        spec = self._spec
        client = httpx.AsyncClient(
            verify=self._tls,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=self._kept),
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

    It is called at once and not by the loop, which would forget a signal that comes in its last
    turn before the end. Outside the main thread signals cannot be caught, and nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {}

    def first(number: int, frame: FrameType | None) -> None:
        del number, frame
        release()
        halt()
        loop.call_soon_threadsafe(lambda: None)  # it may be waiting for something else

    def release() -> None:
        for number, handler in before.items():
            if handler is not None:  # None: set by no Python code, and so nothing to go back to
                signal.signal(number, handler)

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, first)
        yield
    finally:
        release()
