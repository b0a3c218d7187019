"""Programs that outlive the command that starts them, are known again later, and all end.

Each program has a process group, a log and a card of its own: a small file with its process id and
the moment the process began, so that another process which has got the same number since is never
taken for it. A mark in the environment, which children inherit, finds what has no card: a program
whose starter was killed before it could write one, or what a worker has started.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import psutil

from pipelines.demo import ending
from pipelines.demo.ready import Ready
from specdecode.durable import written_whole
from specdecode.errors import ConfigError, EngineError
from specdecode.workload.server_process import last_words

MARK = "SPECDECODE_DEMO_FAMILY"
_TICK_S = 0.1
_ROUNDS = 5
_COMMAND_S = 120.0
"""A command that starts programs ends all of them first."""
_SAME_MOMENT_S = 1.0
"""The beginning of a process as the system tells it may be rounded; ids are not reused so soon."""


@dataclass(frozen=True)
class Program:
    """How to start a program.

    Attributes:
        name: of its card and log.
        argv: program and arguments.
        ready: says when it is, and where.
        env: beside this process's own variables.
        folder: it runs in; None for this process's own.
        ready_s: seconds it may take to get ready.
    """

    name: str
    argv: Sequence[str]
    ready: Ready
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    ready_s: float = 120.0


@dataclass(frozen=True)
class Card:
    """What is known of a program that was started.

    Attributes:
        name: of the program.
        pid: its process, which leads its group.
        began: when the process began, seconds since 1970.
        url: where it answers; "" where it does not or not yet.
        log: what it writes.
    """

    name: str
    pid: int
    began: float
    url: str
    log: str

    def process(self) -> psutil.Process | None:
        """The running process; None if it has ended, whoever has its number now."""
        return _running(self.pid, self.began)


class Family:
    """The programs of one folder.

    Args:
        folder: of cards and logs; made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._cards, self._logs = folder / "run", folder / "logs"
        for path in (self._cards, self._logs):
            path.mkdir(parents=True, exist_ok=True)
        self._holder = self._cards / "lock"
        self._mark = self._read_mark()

    @contextmanager
    def alone(self, *, instead: bool = False) -> Iterator[None]:
        """Keep others from starting or ending programs of this folder meanwhile.

        Args:
            instead: whether to end a command that is at it, which ends what it has started.

        Raises:
            ConfigError: another command is at it.
            EngineError: it was asked to end, and does not.
        """
        with self._holder.open("a+b") as file:
            if not _locks(file):
                if not instead:
                    raise ConfigError(
                        f"another command starts or stops the programs of {self._cards.parent}: "
                        "wait until it is done, or `make down`"
                    )
                self._end_holder()
                until = time.monotonic() + ending.STOP_S
                while not _locks(file):
                    if time.monotonic() > until:
                        raise EngineError(f"{self._holder}: whoever holds it does not end")
                    time.sleep(_TICK_S)
            self._hold(os.getpid())
            yield

    def _hold(self, pid: int) -> None:
        card = Card("command", pid, _began(pid), "", "")
        with written_whole(self._cards / "holder") as file:
            file.write(json.dumps(asdict(card)).encode())

    def _end_holder(self) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            holder = Card(**json.loads((self._cards / "holder").read_bytes()))
            if (process := holder.process()) is not None:
                process.send_signal(signal.SIGTERM)
                ending.still_running([process], _COMMAND_S)

    def cards(self) -> list[Card]:
        """Everything that was started, in that order, whether it still runs or not."""
        paths = self._cards.glob("*.json")
        found = [Card(**json.loads(path.read_bytes())) for path in paths]
        return sorted(found, key=lambda card: (card.began, card.name))

    def start(self, program: Program) -> Card:
        """Start a program and wait until it is ready.

        Raises:
            ConfigError: a program of this name runs already.
            EngineError: it cannot be started, ended, or was not ready in time; with the end of its
                log. It is then gone.
        """
        path = self._cards / f"{program.name}.json"
        if path.exists() and Card(**json.loads(path.read_bytes())).process() is not None:
            raise ConfigError(f"{program.name} runs already; stop it first")
        log = self._logs / f"{program.name}.log"
        with log.open("ab") as file:  # after what earlier ones wrote
            start = file.tell()
            try:
                process = subprocess.Popen(
                    list(program.argv),
                    env={**os.environ, **program.env, MARK: self._mark},
                    cwd=program.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C of the terminal is not for it
                )
            except OSError as error:
                raise EngineError(f"cannot start {program.name}: {error}") from error
        card = Card(program.name, process.pid, _began(process.pid), "", str(log))
        self._write(card)
        try:
            card = Card(**{**asdict(card), "url": _wait(program, process, log, start)})
        except BaseException:
            ending.end_all([found] if (found := card.process()) is not None else [])
            process.wait()
            raise
        self._write(card)
        return card

    def end(self) -> list[str]:
        """End every program, newest first, and whatever carries the mark.

        Returns:
            Names of those that ran; a process without a card by its number.

        Raises:
            EngineError: some do not end, even when they are killed.
        """
        ended: list[str] = []
        for card in reversed(self.cards()):
            if (process := card.process()) is not None:
                ended.append(card.name)
                ending.end_all([process])
            (self._cards / f"{card.name}.json").unlink(missing_ok=True)
        for _ in range(_ROUNDS):  # a parent may have started one more while it was ended
            left = _marked(self._mark)
            if not left:
                return ended
            ended += [f"process {process.pid}" for process in left]
            ending.end_all(left)
        raise EngineError(
            f"processes of {self._cards.parent} do not end: {', '.join(map(str, self.strays()))}; "
            "end them by hand"
        )

    def strays(self) -> list[int]:
        """Ids of marked processes that run, whether there is a card for them or not."""
        return [process.pid for process in _marked(self._mark)]

    def _write(self, card: Card) -> None:
        with written_whole(self._cards / f"{card.name}.json") as file:
            file.write(json.dumps(asdict(card)).encode())

    def _read_mark(self) -> str:
        path = self._cards / "mark"
        with contextlib.suppress(FileExistsError), written_whole(path, replace=False) as file:
            file.write(secrets.token_hex(16).encode())
        return path.read_text()


def _wait(program: Program, process: subprocess.Popen[bytes], log: Path, start: int) -> str:
    until = time.monotonic() + program.ready_s
    while time.monotonic() < until:
        written = log.read_bytes()[start:].decode("utf-8", errors="replace")
        if (url := program.ready(written)) is not None:
            return url
        if (code := process.poll()) is not None:
            raise EngineError(f"{program.name} ended with {code}; {last_words(log)}")
        time.sleep(_TICK_S)
    raise EngineError(
        f"{program.name} was not ready within {program.ready_s:g} s; {last_words(log)}"
    )


def _began(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:  # it has ended, and no process that runs began then
        return 0.0


def _locks(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _running(pid: int, began: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - began) < _SAME_MOMENT_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def _marked(mark: str) -> list[psutil.Process]:
    """Running processes whose environment has the mark, other than this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # of others, or gone meanwhile
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found
