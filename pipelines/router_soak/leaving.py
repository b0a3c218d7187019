"""Users who go before their reply is whole: every server meets them, and many leak for them."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count

import aiohttp

_PATIENCE = aiohttp.ClientTimeout(total=60.0)


class Leavers:
    """Asks at a steady pace, reads the first bytes of each reply, and goes.

    Args:
        url: base address of the router.
        per_s: how many come in a second.

    Attributes:
        sent: requests of which a reply began, so that the router knows of them.
        unanswered: requests of which none did.
    """

    def __init__(self, url: str, per_s: float) -> None:
        self._url, self._pause_s = f"{url}/v1/chat/completions", 1 / per_s
        self._names = count()
        self.sent = self.unanswered = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Come and go, until `stop`."""
        while not stop.is_set():
            await self.one()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._pause_s)

    async def one(self) -> None:
        """One of them; the connection is of its own, and closed with the reply unread."""
        body = {
            "messages": [{"role": "user", "content": "going"}],
            "stream": True,
            "temperature": 1.0,
        }
        headers = {"x-specdecode-conversation": f"leaving-{next(self._names)}"}
        began = False
        try:
            async with (
                aiohttp.ClientSession(timeout=_PATIENCE, trust_env=False) as client,
                client.post(self._url, json=body, headers=headers) as reply,
            ):
                began = True
                await reply.content.readany()
                reply.close()  # unread, and so its connection with it
        except (aiohttp.ClientError, TimeoutError):
            pass  # broken off by the candidate, as others' replies are
        self.sent += began
        self.unanswered += not began
