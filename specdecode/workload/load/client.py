"""The client process: its HTTP connections, and the signals that end it."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from specdecode.workload.load.spec import LoadSpec


def http_client(spec: LoadSpec) -> httpx.AsyncClient:
    """A client without limits of its own, so that all waiting is the server's or is recorded.

    Proxies and .netrc of the environment are not used: a load test through a proxy measures it.
    """
    return httpx.AsyncClient(
        verify=ssl.create_default_context(),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        timeout=httpx.Timeout(spec.idle_timeout_s, connect=spec.connect_timeout_s, pool=None),
        trust_env=False,
        follow_redirects=False,
    )


@contextmanager
def on_signals(halt: Callable[[], None]) -> Iterator[None]:
    """Call `halt` on the first Ctrl-C or TERM; a second one acts as always.

    Outside the main thread signals cannot be caught, and nothing is changed.
    """
    loop = asyncio.get_running_loop()
    caught = (signal.SIGINT, signal.SIGTERM)

    def first() -> None:
        halt()
        release()

    def release() -> None:
        for number in caught:
            loop.remove_signal_handler(number)

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
