"""What the server holds, once a second: memory, threads, open files, cache and queue."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psutil

from specdecode.errors import SpecdecodeError
from specdecode.workload.engines.metrics_text import parse_metrics

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
TOKENS = "vllm:generation_tokens_total"
KV_BYTES = "specdecode:kv_cache_bytes"
_PATIENCE_S = 5.0
"""How long an answer of the server is waited for, and how long it stands for what came after."""


@dataclass(frozen=True)
class Sample:
    """What the server held at a moment; what it did not tell is None.

    Attributes:
        t_s: seconds since the load began.
        rss_bytes: memory in RAM.
        uss_bytes: of that, what no other process shares.
        threads: of the process.
        fds: open files, connections included.
        connections: of clients, the sampler's own included.
        kv_bytes: key/value cache, if the server tells.
        running: replies being decoded.
        waiting: replies in the queue.
        tokens: written since it started.
    """

    t_s: float
    rss_bytes: int
    uss_bytes: int
    threads: int
    fds: int
    connections: int
    kv_bytes: float | None
    running: float | None
    waiting: float | None
    tokens: float | None

    @property
    def files(self) -> int:
        """Open files that are no connection of a client."""
        return self.fds - self.connections

    @property
    def is_idle(self) -> bool:
        """Whether nobody is connected, is decoded or waits; False if the server does not say."""
        return self.running == 0 and self.waiting == 0 and self.connections <= 1


def is_closing(process: psutil.Process) -> bool:
    """Whether it holds a connection of which one end is closed and the other is not.

    Args:
        process: the server.

    Raises:
        psutil.Error: it has ended.
    """
    whole = (psutil.CONN_LISTEN, psutil.CONN_ESTABLISHED)
    return any(each.status not in whole for each in process.net_connections("tcp"))


class Sampler:
    """Samples a server in threads of its own, from `__enter__` to `__exit__`.

    What the operating system knows is not kept waiting for what a busy server tells.

    Args:
        pid: of the server.
        url: its base address.
        every_s: time between samples.
        path: gets each sample as a line, at once.

    Attributes:
        samples: so far.
    """

    def __init__(self, pid: int, url: str, every_s: float, path: Path) -> None:
        self._process, self._every_s, self._path = psutil.Process(pid), every_s, path
        self._client = httpx.Client(base_url=url, timeout=_PATIENCE_S, trust_env=False)
        self._stop, self._zero = threading.Event(), time.monotonic()
        self._threads = [
            threading.Thread(target=work, name=work.__name__, daemon=True)
            for work in (self._sample_on, self._ask_on)
        ]
        self._latest: tuple[float, dict[str, float]] = (0.0, {})
        self.samples: list[Sample] = []

    def __enter__(self) -> Sampler:
        self._zero = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def sample(self, told: Mapping[str, float]) -> Sample:
        """One sample now.

        Args:
            told: what the server says of itself, by metric.

        Raises:
            psutil.Error: the process has ended.
        """
        t_s = time.monotonic() - self._zero
        with self._process.oneshot():
            memory = self._process.memory_full_info()
            threads = self._process.num_threads()
            if self._process.status() == psutil.STATUS_ZOMBIE:  # holds nothing, and is no sample
                raise psutil.ZombieProcess(self._process.pid)
        fds, connected = self._process.num_fds(), self._process.net_connections("tcp")
        return Sample(
            round(t_s, 3), memory.rss, memory.uss, threads, fds,
            sum(connection.status == psutil.CONN_ESTABLISHED for connection in connected),
            told.get(KV_BYTES), told.get(RUNNING), told.get(WAITING), told.get(TOKENS),
        )  # fmt: skip

    def idle(self, patience_s: float = 90.0) -> Sample | None:
        """A sample of the idle server, as soon as it is; None if it does not become so.

        Connections whose client has left are waited for: where the machine is busy, the server
        closes its end a moment later. One that it never closes is in the sample, as an open file.
        """
        end = time.monotonic() + patience_s
        found: Sample | None = None
        while time.monotonic() < end:
            told = self._told()
            try:
                closing, now = is_closing(self._process), self.sample(told)
            except psutil.Error:
                return None
            found = now if now.is_idle else found
            if now.is_idle and not closing:
                break
            time.sleep(0.2)
        return found

    def _told(self) -> dict[str, float]:
        try:
            text = self._client.get("/metrics").raise_for_status().text
            series = parse_metrics(text).series
        except (httpx.HTTPError, SpecdecodeError):  # busy, or gone: the rule counts what is missing
            return {}
        return {
            name: sum(series[name].values())
            for name in (RUNNING, WAITING, TOKENS, KV_BYTES)
            if name in series
        }

    def _ask_on(self) -> None:
        while not self._stop.is_set():
            if told := self._told():
                self._latest = (time.monotonic(), told)
            self._stop.wait(self._every_s)

    def _sample_on(self) -> None:
        with self._path.open("w", encoding="utf-8") as lines:
            while not self._stop.is_set():
                when, told = self._latest
                known = time.monotonic() - when < _PATIENCE_S
                try:
                    sample = self.sample(told if known else {})
                except psutil.Error:
                    return  # it has ended; the rule counts what is missing
                self.samples.append(sample)
                lines.write(json.dumps(asdict(sample)) + "\n")
                lines.flush()
                due = len(self.samples) * self._every_s
                self._stop.wait(max(0.0, due - (time.monotonic() - self._zero)))
