"""Connections on which no request comes are closed; uvicorn itself waits for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(head_s: float) -> type[H11Protocol]:
    """HTTP that lets a client go if no whole request head comes for so many seconds.

    They count from the connection, and from the end of each answer: also for a client that sends
    its head a byte at a time, or goes on sending a body that was refused.
    """

    class Patient(H11Protocol):
        _overdue: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_head(self.cycle)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._overdue is not None:
                self._overdue.cancel()

        def on_response_complete(self) -> None:
            answered = self.cycle
            super().on_response_complete()  # may begin with the next request
            self._await_head(answered)

        def _await_head(self, before: object) -> None:
            if self._overdue is not None:
                self._overdue.cancel()
            self._overdue = self.loop.call_later(head_s, self._close_if_still_at, before)

        def _close_if_still_at(self, before: object) -> None:
            if self.cycle is before:
                self.transport.close()

    return Patient
