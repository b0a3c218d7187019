"""A server that is started for a measurement or a test, waited for, and stopped by process id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from specdecode.errors import ConfigError, EngineError

PORT = "{port}"
"""Stands for a free port in a command."""

_ASK_S = 0.25
_TAIL_BYTES = 2000


@dataclass(frozen=True)
class ServerCommand:
    """How to start a server.

    Attributes:
        argv: program and arguments; `{port}` in any of them becomes a free port.
        env: added to this process's environment; an empty value removes a variable.
        ready_path: answers 200 once requests are taken.
        ready_s: seconds it may take to get there.
        stop_s: seconds it may take to end in good order; then it is killed.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_path: str = "/health"
    ready_s: float = 300.0
    stop_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.argv:
            raise ConfigError("the command that starts the server is empty")
        if not any(PORT in part for part in self.argv):
            raise ConfigError(
                f"the command that starts the server does not say where it listens: put {PORT} in "
                f"the place of its port ({' '.join(self.argv)})"
            )


class ServerProcess:
    """A running server on loopback, with its children in a process group of its own.

    Use it as a context: ready inside, gone outside.

    Args:
        command: starts it.
        log: file that its output is appended to.

    Attributes:
        url: base address.
        log: the file.
    """

    def __init__(self, command: ServerCommand, log: Path) -> None:
        self._command, self.log = command, log
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """Process id of what was started.

        Raises:
            ConfigError: it was not.
        """
        if self._process is None:
            raise ConfigError("the server has not been started")
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it, and wait until it takes requests.

        Raises:
            EngineError: it cannot be started, ended, or was not ready in time; with the end of its
                log.
        """
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        argv = [part.replace(PORT, str(port)) for part in self._command.argv]
        env = {k: v for k, v in {**os.environ, **self._command.env}.items() if v}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise EngineError(f"cannot start '{argv[0]}': {error}") from error
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> int | None:
        """End it: in good order if it can, else at once.

        Returns:
            Its exit code; None if it was never started.
        """
        process = self._process
        if process is None:
            return None
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(self._command.stop_s)
        finally:  # also when a signal cuts the wait short
            with contextlib.suppress(ProcessLookupError):  # engines leave workers behind
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + self._command.ready_s
        with httpx.Client(trust_env=False, timeout=5.0) as client:
            while time.monotonic() < until:
                if (code := process.poll()) is not None:
                    raise EngineError(f"the server ended with {code}; {last_words(self.log)}")
                with contextlib.suppress(httpx.HTTPError):
                    if client.get(self.url + self._command.ready_path).status_code == 200:
                        return
                time.sleep(_ASK_S)
        raise EngineError(
            f"the server was not ready within {self._command.ready_s:g} s; {last_words(self.log)}"
        )


def last_words(log: Path) -> str:
    """The end of a server's log, as part of a sentence."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace").strip()
    return f"its log {log} ends: {text}" if text else f"its log {log} is empty"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
