"""A server behind the router: its connections, and what goes wrong with them in one word."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from time import monotonic
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from specdecode.rollout.headers import to_server
from specdecode.rollout.settings import RouterSettings, Server
from specdecode.workload.load.faults import (
    CLIENT_ERROR,
    CONNECT_TIMEOUT,
    DISCONNECTED,
    IDLE_TIMEOUT,
    MALFORMED,
    REFUSED,
    Fault,
)

Body = bytes | AsyncIterator[bytes] | None

_POOL_S: Final = 4.0
"""Seconds an idle connection is kept; less than any common server's, the least of which is 5."""
_STALE_S: Final = 0.25
"""Seconds within which a connection that was closed before it was used says so."""
_LONGEST_HEADER: Final = 65_536
_OURS: Final = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)
_WORDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (aiohttp.ConnectionTimeoutError, CONNECT_TIMEOUT),
    (TimeoutError, IDLE_TIMEOUT),
    (aiohttp.ClientSSLError, CLIENT_ERROR),
    (aiohttp.ClientConnectorError, REFUSED),
    ((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, OSError), DISCONNECTED),
)
"""What errors of the HTTP library mean; the first that fits."""


class Upstream:
    """Asks one server. Its connections are opened as they are needed, and used again.

    Args:
        server: which.
        settings: how long to wait.
        asked_again: told of the arm whenever a request is sent once more.

    Attributes:
        counts: whether it tells token counts in streams, as far as is known.
    """

    def __init__(
        self, server: Server, settings: RouterSettings, asked_again: Callable[[str], None]
    ) -> None:
        self.server = server
        self._asked_again = asked_again
        self.counts = True
        self._root = server.root
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_start.append(_new_connection)
        trace.on_request_chunk_sent.append(_sent)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_POOL_S),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=settings.connect_s, sock_read=settings.idle_s
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            trace_configs=[trace],
        )

    @property
    def arm(self) -> str:
        """What rows call it."""
        return self.server.arm

    def headers(self, headers: CIMultiDictProxy[str], *, readable: bool) -> CIMultiDict[str]:
        """A client's headers as this server gets them; see `to_server`."""
        server = self.server
        return to_server(
            headers, key=server.key, takes_credentials=server.takes_credentials, readable=readable
        )

    async def ask(
        self,
        method: str,
        path: str,
        headers: CIMultiDict[str],
        body: Body,
        sent: Callable[[], None] | None = None,
    ) -> aiohttp.ClientResponse:
        """The reply, once its headers are there; whoever asked has to `close` or `release` it.

        A connection that the server closed while nobody used it is no failure of the server's. It
        shows at once, so then the request is sent once more, over a new one, which is counted.

        Args:
            method: of HTTP.
            path: with its query, exactly as it goes on the wire.
            headers: of the request.
            body: of the request; None for none.
            sent: called as the body goes out, perhaps more than once; it is handed to the system
                before anything else has its turn in the event loop.

        Raises:
            Fault: there was no reply.
        """
        # Already encoded: what the client wrote is what the server gets.
        url = URL(self._root + path, encoded=True)
        try:
            try:
                connection, began = SimpleNamespace(is_new=False, sent=sent), monotonic()
                return await self._send(method, url, headers, body, connection)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                at_once = monotonic() - began < _STALE_S
                if connection.is_new or not at_once or not isinstance(body, bytes | None):
                    raise
            self._asked_again(self.arm)
            return await self._send(method, url, headers, body, connection)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise fault_of(error) from error

    async def _send(
        self,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        body: Body,
        connection: SimpleNamespace,
    ) -> aiohttp.ClientResponse:
        return await self._session.request(
            method,
            url,
            headers=headers,
            data=body,
            allow_redirects=False,
            trace_request_ctx=connection,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()


def fault_of(error: BaseException) -> Fault:
    """What an error of the HTTP library says about the server."""
    detail = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, OSError) and error.errno in _OURS:
        return Fault(CLIENT_ERROR, detail)
    for kinds, word in _WORDS:
        if isinstance(error, kinds):
            return Fault(word, detail)
    return Fault(MALFORMED, detail)


async def pieces(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The body as it arrives.

    Raises:
        Fault: it ended before it was whole.
    """
    try:
        async for piece in reply.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise fault_of(error) from error


async def whole(reply: aiohttp.ClientResponse) -> bytes:
    """All of the body.

    Raises:
        Fault: it ended before it was whole.
    """
    try:
        return await reply.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise fault_of(error) from error


async def _new_connection(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any
) -> None:
    context.trace_request_ctx.is_new = True


async def _sent(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:
    if context.trace_request_ctx.sent is not None:
        context.trace_request_ctx.sent()
