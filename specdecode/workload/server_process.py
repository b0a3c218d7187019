"""A server that is started for a measurement or a test, waited for, and stopped by process id."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from specdecode.errors import ConfigError, EngineError

PORT = "{port}"
"""Stands for a free port in a command."""
PROGRAM = (sys.executable, "-m", "specdecode")
"""This project's command line."""

_ASK_S = 0.25
_TAIL_BYTES = 2000
_ATTEMPTS = 3
_ADDRESS = re.compile(rb"(?:listening on |Serving '.*' at |\"url\": \")(https?://[^\s/\"]+:\d+)")
_IN_USE = re.compile(rb"address (is )?(already )?in use|EADDRINUSE", re.IGNORECASE)


@dataclass(frozen=True)
class ServerCommand:
    """How to start a server.

    Attributes:
        argv: program and arguments; `{port}` in any of them becomes a free port.
        tells_address: whether it takes port 0 for any free one, and writes where it listens, as
            this project's programs do. Then nobody else can take the port before it does.
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
    tells_address: bool = False

    def __post_init__(self) -> None:
        if not self.argv:
            raise ConfigError("the command that starts the server is empty")
        if not any(PORT in part for part in self.argv):
            raise ConfigError(
                f"the command that starts the server does not say where it listens: put {PORT} in "
                f"the place of its port ({' '.join(self.argv)})"
            )


def own_server(
    *options: str, program: Sequence[str] = PROGRAM, ready_s: float = 300.0
) -> ServerCommand:
    """`specdecode serve` on a free port of loopback, open to clients that know no key.

    Args:
        options: further ones of `specdecode serve`.
        program: what to call with `serve`.
        ready_s: seconds it may take to start.
    """
    argv = (*program, "serve", "--host", "127.0.0.1", "--port", PORT, *options)
    env = {"SPECDECODE_API_KEY": ""}
    return ServerCommand(argv, env=env, ready_s=ready_s, tells_address=True)


class _PortTakenError(EngineError):
    """It ended because somebody else had taken its port."""


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

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        """Start it, and wait until it takes requests.

        Raises:
            EngineError: it cannot be started, ended, or was not ready in time; with the end of its
                log.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start(hold=attempt == 1)
                break
            except _PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
        return self

    def _start(self, *, hold: bool) -> None:
        """One attempt.

        Args:
            hold: whether to keep others off its port until it listens. A server that does not ask
                to reuse an address, which hardly any fails to do, is kept off too.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as claim, self.log.open("ab") as log:
            port = 0 if self._command.tells_address else claim.enter_context(_claimed_port())
            self.url = f"http://127.0.0.1:{port}"
            if not hold:
                claim.close()
            argv = [part.replace(PORT, str(port)) for part in self._command.argv]
            env = {k: v for k, v in {**os.environ, **self._command.env}.items() if v}
            begins = log.tell()
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
                self._wait_until_ready(self._process, port, begins)
            except BaseException:
                self.stop()
                raise

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

    def _wait_until_ready(self, process: subprocess.Popen[bytes], port: int, begins: int) -> None:
        until = time.monotonic() + self._command.ready_s
        listens = not self._command.tells_address  # as far as anybody knows
        with httpx.Client(trust_env=False, timeout=5.0) as client:
            while time.monotonic() < until:
                if (code := process.poll()) is not None:
                    taken = bool(port) and self._port_was_taken(port, begins)
                    kind = _PortTakenError if taken else EngineError
                    raise kind(f"the server ended with {code}; {last_words(self.log)}")
                if not listens and (told := _ADDRESS.search(self._said(begins))):
                    self.url, listens = told[1].decode(), True
                if listens:
                    with contextlib.suppress(httpx.HTTPError):
                        if client.get(self.url + self._command.ready_path).status_code == 200:
                            return
                time.sleep(_ASK_S)
        raise EngineError(
            f"the server was not ready within {self._command.ready_s:g} s; {last_words(self.log)}"
        )

    def _said(self, begins: int) -> bytes:
        with self.log.open("rb") as file:
            file.seek(begins)
            return file.read()

    def _port_was_taken(self, port: int, begins: int) -> bool:
        """Whether it says so, or somebody is there although it has ended."""
        if _IN_USE.search(self._said(begins)):
            return True
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0


def last_words(log: Path) -> str:
    """The end of a server's log, as part of a sentence."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace").strip()
    return f"its log {log} ends: {text}" if text else f"its log {log} is empty"


@contextlib.contextmanager
def _claimed_port() -> Iterator[int]:
    """A free port that nobody is given by chance meanwhile.

    A socket that is bound but does not listen keeps the port from those that ask for any, and from
    none that ask for this one with either of the two options.
    """
    with socket.socket() as claim:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            claim.setsockopt(socket.SOL_SOCKET, option, 1)
        claim.bind(("127.0.0.1", 0))
        port: int = claim.getsockname()[1]
        yield port
