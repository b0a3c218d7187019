"""Use of processor, memory and GPU over time. What has no source is "not measured", never 0.

Everything here is about this machine. If the server runs elsewhere, so do its processor and GPU,
and what is sampled is the load client's own machine; the scope says which it is.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import psutil

from specdecode.errors import ConfigError
from specdecode.workload.loopback import is_loopback

NOT_MEASURED: Final = "not measured"
_QUERY: Final = "utilization.gpu,memory.used,memory.total,power.draw"
_PATIENCE_S: Final = 5.0
# The kernel counts processor time in ticks of 10 ms; over a few of them its use is noise.
_LEAST_S: Final = 0.1


@dataclass
class Sampler:
    """Samples on request.

    Args:
        url: of the server; tells whether it runs here.
        server_pid: process whose use, children included, is sampled too; None samples the machine.
        every_s: time between samples.

    Raises:
        ConfigError: there is no such process.
    """

    url: str
    server_pid: int | None = None
    every_s: float = 1.0

    def __post_init__(self) -> None:
        self._process: psutil.Process | None = None
        self._family: dict[int, psutil.Process] = {}
        self._smi = shutil.which("nvidia-smi")
        self._client = psutil.Process()
        if self.server_pid is not None:
            try:
                self._process = psutil.Process(self.server_pid)
            except (psutil.Error, ValueError) as error:
                raise ConfigError(f"--server-pid {self.server_pid}: no such process") from error
        self._machine = _machine_seconds()
        self._client.cpu_percent()  # the first call has nothing to compare with
        self._read_at = time.monotonic()
        self._server()

    @property
    def scope(self) -> str:
        """What the samples are of."""
        if self.server_pid is not None:
            return f"process {self.server_pid} with its children, and this machine"
        if is_local(self.url):
            return "this machine, on which server and load client share processor and memory"
        return "the load client's machine; the server runs elsewhere and is not measured"

    def sample(self) -> dict[str, Any]:
        """One sample, JSON-safe; None where there is no source.

        Use of the processor is since the sample before, and None where that is too short ago.
        """
        memory = psutil.virtual_memory()
        began, self._read_at = self._read_at, time.monotonic()
        long_enough = self._read_at - began >= _LEAST_S
        before, self._machine = self._machine, _machine_seconds()
        busy, total = self._machine[0] - before[0], self._machine[1] - before[1]
        client = self._client.cpu_percent()
        cpu, rss = self._server()
        return {
            "machine_cpu_percent": 100 * busy / total if long_enough and total > 0 else None,
            "machine_memory_bytes": int(memory.total - memory.available),
            "server_cpu_percent": cpu if long_enough else None,
            "server_rss_bytes": rss,
            "client_cpu_percent": client if long_enough else None,
            "client_rss_bytes": self._client.memory_info().rss,
            "gpus": self._gpus(),
        }

    def _server(self) -> tuple[float | None, int | None]:
        """(percent of one core, resident bytes) of the server; None once it is gone."""
        if self._process is None:
            return None, None
        try:
            members = [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return None, None
        # The percentage is since the last call on the same object, so objects are kept.
        self._family = {p.pid: self._family.get(p.pid, p) for p in members}
        cpu, rss = 0.0, 0
        for member in self._family.values():
            with contextlib.suppress(psutil.Error):
                cpu += member.cpu_percent()
                rss += member.memory_info().rss
        return (cpu, rss) if rss else (None, None)

    def _gpus(self) -> list[dict[str, float | None]] | None:
        if self._smi is None:
            return None
        try:
            done = subprocess.run(
                [self._smi, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return parse_smi(done.stdout)


def _machine_seconds() -> tuple[float, float]:
    """(busy, all) processor seconds since boot.

    `psutil.cpu_percent` remembers by thread and answers 0 to a thread that never asked before.
    """
    spent = psutil.cpu_times()._asdict()
    # Linux counts guests in user and nice, too.
    total = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return total - spent["idle"] - spent.get("iowait", 0.0), total


def parse_smi(text: str) -> list[dict[str, float | None]] | None:
    """nvidia-smi's CSV, one GPU a line; a value it does not know is None. None without a GPU."""
    gpus = []
    for line in text.splitlines():
        cells = [_number(cell) for cell in line.split(",")]
        if len(cells) == 4:
            use, used, total, power = cells
            gpus.append(
                {
                    "utilisation_percent": use,
                    "memory_bytes": None if used is None else used * 2**20,
                    "memory_total_bytes": None if total is None else total * 2**20,
                    "power_w": power,
                }
            )
    return gpus or None


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # "[N/A]"
        return None


def is_local(url: str) -> bool:
    """Whether an address is this machine's loopback."""
    return is_loopback(urlsplit(url).hostname or "")
