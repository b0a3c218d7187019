"""Connections on which the head of a request never comes to its end are closed."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def http_protocol(head_s: float) -> type[H11Protocol]:
    """HTTP/1.1 as uvicorn speaks it, but for clients that are slow on purpose.

    Args:
        head_s: seconds that a request's line and headers may take, from the connection or from
            their first byte on one that is kept alive.
    """

    class Protocol(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._unwatch()

        def _watch(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._unwatch()
            elif self._late is None:
                self._late = self.loop.call_later(head_s, self._is_late)

        def _unwatch(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _is_late(self) -> None:
            self._late = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Protocol
