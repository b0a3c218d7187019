"""Run a router until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from specdecode.errors import ConfigError
from specdecode.rollout.app import Router
from specdecode.rollout.heads import WithoutTraces
from specdecode.rollout.settings import RouterSettings

log = logging.getLogger("specdecode.rollout")
http_log = logging.getLogger("specdecode.rollout.http")
http_log.addFilter(WithoutTraces())

Ready = Callable[[str, int], None]

_KEEPALIVE_S: Final = 75.0
_LONGEST_HEADER: Final = 65_536
_BACKLOG: Final = 1024
_LINGER_S: Final = 2.0
_SWITCH_S: Final = 0.0005
"""Seconds that the thread which writes rows may keep the interpreter from who answers users."""


class Stop:
    """Tells a router to stop: once to finish what it has begun, twice to cut it off."""

    def __init__(self) -> None:
        self.asked, self.at_once = asyncio.Event(), asyncio.Event()

    def __call__(self) -> None:
        """Stop; the second time at once."""
        if self.asked.is_set():
            self.at_once.set()
        self.asked.set()


def run(settings: RouterSettings, ready: Ready) -> None:
    """Serve until a signal comes; the first lets it finish, the second does not.

    Args:
        settings: everything that can be set.
        ready: told address and port once it listens.

    Raises:
        ConfigError: it cannot listen there, or its folder cannot be used.
        UserError: another router has its folder.
    """
    _more_files()
    sys.setswitchinterval(_SWITCH_S)
    asyncio.run(_until_signalled(settings, ready))


async def serve(settings: RouterSettings, ready: Ready, stop: Stop) -> None:
    """Serve until `stop`; see `run`.

    Args:
        settings: everything that can be set.
        ready: told address and port once it listens.
        stop: tells when to end.
    """
    router = Router(settings)
    try:
        runner = web.AppRunner(
            router.app(),
            access_log=None,
            logger=http_log,
            handler_cancellation=True,  # a client that leaves ends its request at the server, too
            shutdown_timeout=settings.finish_s,
            keepalive_timeout=_KEEPALIVE_S,
            lingering_time=_LINGER_S,
            auto_decompress=False,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )
        await runner.setup()
        watching: asyncio.Task[None] | None = None
        try:
            await _listen(runner, settings)
            router.start()
            if runner.server is not None:
                watching = asyncio.create_task(router.heads.watch(runner.server), name="heads")
            host, port, *_ = runner.addresses[0]
            ready(host, port)
            # What lives as long as the process need not be looked at by every collection.
            gc.collect()
            gc.freeze()
            await stop.asked.wait()
            router.routes.stopping = True
            log.info("finishing")
        finally:
            if watching is not None:
                watching.cancel()
            await _finish(runner, router, stop)
    finally:
        await router.close()


async def _listen(runner: web.AppRunner, settings: RouterSettings) -> None:
    if not settings.is_loopback:
        log.warning(
            "listening on %s: whoever reaches this machine can use both servers", settings.host
        )
    site = web.TCPSite(runner, settings.host, settings.port, backlog=_BACKLOG)
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}, port {settings.port} ({error.strerror or error}): "
            "give another --port (0 takes a free one) or --host"
        ) from error


async def _finish(runner: web.AppRunner, router: Router, stop: Stop) -> None:
    """Let requests and copies end, unless somebody insists."""
    ending = asyncio.ensure_future(asyncio.gather(runner.cleanup(), router.stop_copies()))
    insisted = asyncio.ensure_future(stop.at_once.wait())
    either: set[asyncio.Future[Any]] = {ending, insisted}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if insisted.done() and runner.server is not None:
            for connection in runner.server.connections:
                connection.force_close()
            router.cut_copies()
        await ending
    finally:
        insisted.cancel()


async def _until_signalled(settings: RouterSettings, ready: Ready) -> None:
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await serve(settings, ready, stop)


def _more_files() -> None:
    """Each request has two connections; as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
