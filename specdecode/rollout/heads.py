"""Connections on which no request ever comes to the end of its head are closed."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

_LOOKS: Final = 4


class Heads:
    """Looks after new connections.

    Args:
        head_s: seconds that the head of a connection's first request may take; later ones have the
            time for which an idle connection is kept.
    """

    def __init__(self, head_s: float) -> None:
        self._head_s = head_s
        self._served: set[RequestHandler] = set()
        self._seen: dict[RequestHandler, float] = {}

    def arrived(self, request: web.Request) -> None:
        """The head of a request is there."""
        self._served.add(request.protocol)

    async def watch(self, server: web.Server) -> None:
        """Close connections that are late, until cancelled."""
        while True:
            await asyncio.sleep(self._head_s / _LOOKS)
            now, there = monotonic(), set(server.connections)
            self._served &= there
            self._seen = {each: self._seen.get(each, now) for each in there - self._served}
            for connection, since in self._seen.items():
                if now - since >= self._head_s:
                    connection.force_close()


class WithoutTraces(logging.Filter):
    """What a client does wrong is one line of the log, not a trace of this program."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten a record about a request that is no HTTP; drop one about a client that left.

        Clients leave all the time, and that is counted. A trace of each would fill the disk.
        """
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, ConnectionError):
            return False
        if isinstance(error, HttpProcessingError):
            record.exc_info, record.levelno, record.levelname = None, logging.INFO, "INFO"
            record.msg = f"{record.getMessage()}: {str(error).splitlines()[0]}"
            record.args = ()
        return True
