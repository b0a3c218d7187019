"""What the router holds, every so often: memory, threads, open files, and the rows it has kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from pipelines.soak.sampling import is_closing

_PATIENCE_S = 5.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class Sample:
    """What the router held at a moment.

    Attributes:
        t_s: seconds since the sampler was made.
        rss_bytes: memory in RAM.
        uss_bytes: of that, what no other process shares.
        threads: of the process.
        files: open ones that are no connection.
        recorded: rows so far; None if it did not say.
    """

    t_s: float
    rss_bytes: int
    uss_bytes: int
    threads: int
    files: int
    recorded: float | None


class Sampler:
    """Samples a router.

    Args:
        pid: its process.
        url: its base address.
        every_s: time between samples.
        path: gets each sample as a line, at once.

    Attributes:
        samples: those of `run` so far.
    """

    def __init__(self, pid: int, url: str, every_s: float, path: Path) -> None:
        self._process, self._url = psutil.Process(pid), f"{url}/rollout"
        self._every_s, self._path = every_s, path
        self._zero = time.monotonic()
        self.samples: list[Sample] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Sample until `stop`, or until the process has ended: the rule counts what is missing."""
        self._zero = time.monotonic()
        with self._path.open("w", encoding="utf-8") as lines:
            while not stop.is_set():
                try:
                    sample = self.sample(await self.health())
                except psutil.Error:
                    return
                self.samples.append(sample)
                lines.write(json.dumps(asdict(sample)) + "\n")
                lines.flush()
                due = len(self.samples) * self._every_s + self._zero - time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), max(0.0, due))

    def sample(self, health: dict[str, Any] | None) -> Sample:
        """One sample now.

        Args:
            health: what the router says of itself.

        Raises:
            psutil.Error: the process has ended.
        """
        t_s = time.monotonic() - self._zero
        with self._process.oneshot():
            memory, threads = self._process.memory_full_info(), self._process.num_threads()
            if self._process.status() == psutil.STATUS_ZOMBIE:  # holds nothing, and is no sample
                raise psutil.ZombieProcess(self._process.pid)
        files = self._process.num_fds()
        connections = self._process.net_connections("tcp")
        files -= sum(each.status == psutil.CONN_ESTABLISHED for each in connections)
        recorded = None if health is None else float(health["spool"]["recorded"])
        return Sample(round(t_s, 3), memory.rss, memory.uss, threads, files, recorded)

    async def health(self) -> dict[str, Any] | None:
        """What the router says of itself; None if it does not."""
        timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as client,
                client.get(self._url) as reply,
            ):
                found: dict[str, Any] = (await reply.json())["health"]
                return found
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError):
            return None

    async def idle(self, patience_s: float = 60.0) -> tuple[Sample, dict[str, Any]] | None:
        """A sample of the idle router and its health; None if it does not become idle in time.

        Connections that are being closed are waited for; one that never is counts as an open file.
        """
        until = time.monotonic() + patience_s
        found: tuple[Sample, dict[str, Any]] | None = None
        while time.monotonic() < until:
            health = await self.health()
            await asyncio.sleep(_LOOK_S)  # connections of the last replies are closed by then
            if health is None or health["spool"]["in_flight"]:
                continue
            try:
                closing = is_closing(self._process)
                found = self.sample(health), health
            except psutil.Error:
                return None
            if not closing:
                break
        return found
