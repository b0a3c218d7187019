"""`specdecode serve` in a process of its own, on a free port of loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from specdecode.errors import EngineError

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "specdecode")
_TICK_S = 0.05
_GRACE_S = 60.0


@dataclass(frozen=True)
class Served:
    """A server that listens.

    Attributes:
        process: its process.
        url: base address.
        model: name that requests carry.
        log: what it wrote to standard error.
    """

    process: subprocess.Popen[bytes]
    url: str
    model: str
    log: Path

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self.process.poll() is None

    def stop(self, patience_s: float = _GRACE_S) -> int:
        """Ask it to finish, and wait.

        Returns:
            Its exit code; negative if a signal ended it, as this does after `patience_s` seconds.
        """
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def served(
    options: Sequence[str],
    folder: Path,
    *,
    program: Sequence[str] = PROGRAM,
    patience_s: float = 300.0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Start a server, and stop it at the end whatever happens.

    Args:
        options: of `specdecode serve`; address, port and --json are added.
        folder: gets `server.log` and what the server says of its address.
        program: what to call with `serve`.
        patience_s: seconds to wait until it listens.
        environment: variables beside those of this process.

    Raises:
        EngineError: it ended, or does not listen in time; with the end of its log.
    """
    log, said = folder / "server.log", folder / "server.json"
    command = [*program, "serve", *options, "--host", "127.0.0.1", "--port", "0", "--json"]
    with said.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, env={**os.environ, **(environment or {})}
        )
    try:
        told = _address(process, said, log, time.monotonic() + patience_s)
        server = Served(process, told["url"], told["model"], log)
        yield server
        server.stop()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _address(
    process: subprocess.Popen[bytes], said: Path, log: Path, deadline: float
) -> dict[str, str]:
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ValueError):  # not there yet, or half
            told = json.loads(said.read_bytes())
            if "url" in told:  # else an error, and the process is about to end
                return dict(told)
        time.sleep(_TICK_S)
    why = "does not listen" if process.poll() is None else f"ended with {process.returncode}"
    texts = (file.read_text("utf-8", errors="replace") for file in (log, said))
    end = "".join(texts)[-2000:]
    raise EngineError(f"the server {why}; the end of {log}:\n{end}")
