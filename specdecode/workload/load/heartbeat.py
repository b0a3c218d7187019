"""How late the client itself wakes up: the sign that it, not the server, is the bottleneck."""

from __future__ import annotations

import asyncio

from specdecode.workload.load.exchange import Clock

EVERY_S = 0.05


class Heartbeat:
    """Sleeps again and again and keeps by how much it overslept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.late_s: list[float] = []

    async def beat(self) -> None:
        """Runs until it is cancelled."""
        while True:
            due = self._clock.now() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self.late_s.append(max(0.0, self._clock.now() - due))
