"""A client that goes at the very moment an event has been sent."""

from __future__ import annotations

import asyncio

import pytest

from specdecode.serving.exchange import _EventStream


class Endless:
    """An exchange whose reply never ends."""

    stall_s = 60.0

    def __init__(self) -> None:
        self.closed = self.cancelled = False

    async def events(self):
        try:
            yield b"data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            self.closed = True

    def cancel(self) -> None:
        self.cancelled = True


@pytest.mark.parametrize("turns", range(6))
def test_nothing_goes_on_for_a_client_that_is_gone(turns):
    """Its task used to wait for ever if the cancellation met a send that had just ended."""
    exchange, left = Endless(), []

    async def serve():
        sent = asyncio.Event()

        async def send(message):
            if message["type"] == "http.response.body":
                await sent.wait()

        async def receive():
            for _ in range(turns):
                await asyncio.sleep(0)
            sent.set()
            return {"type": "http.disconnect"}

        await _EventStream(exchange)({}, receive, send)
        for _ in range(10):
            await asyncio.sleep(0)
        left.extend(asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(serve())

    assert left == []
    assert exchange.cancelled
