"""The ledger: what happened, in order, in a file that only grows.

One canonical JSON object a line. Each holds the SHA-256 of the line before it, so a line that is
edited, moved or taken out of the middle shows. The SHA-256 of the last line, the head, stands for
the whole file: whoever kept it elsewhere (`anchor`) also sees lines cut off at the end, or a file
that was written anew. Without such a head those two cannot be seen.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from specdecode.durable import sync_folder
from specdecode.errors import ConfigError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.chain import EMPTY_HEAD, Chain, Entry, Kind, verify_chain
from specdecode.governance.timestamps import utc_now, utc_text

MAX_CLOCK_STEP = timedelta(minutes=1)
"""How far the clock may have been set back before appending is refused."""

Guard = Callable[[Sequence[Entry]], None]
"""Looks at all lines so far while nobody else can append; raises to refuse."""


def verify_ledger(source: bytes | Path | str, expected_head: str | None = None) -> Chain:
    """Check a ledger from its first byte to its last.

    Args:
        source: the ledger's bytes, or its path.
        expected_head: a head that was kept elsewhere. It must be that of some line, since a ledger
            goes on after it was anchored; lines after that one are not covered by it.

    Returns:
        The entries before the first fault, and the fault: its line and what happened to it.

    Raises:
        ConfigError: the file is not there or cannot be read.
    """
    if not isinstance(source, bytes):
        source = _read(Path(source))
    return verify_chain(source, expected_head)


class Ledger:
    """Append to a ledger, one writer at a time.

    Args:
        path: the file; made by the first append.
        clock: tells the time of an entry that comes without one.
    """

    def __init__(self, path: Path | str, clock: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(path)
        self._clock = clock
        self._verified = (b"", Chain((), EMPTY_HEAD, None))

    def append(
        self,
        kind: Kind,
        body: Mapping[str, Any],
        *,
        at: datetime | None = None,
        guard: Guard | None = None,
    ) -> Entry:
        """Write one line durably: when this returns, it survives a power cut.

        Args:
            kind: what happened.
            body: JSON-safe details.
            at: when; None takes the clock, or the last line's time where the clock was set back a
                little since.
            guard: called with the lines so far, under the lock; what it raises is raised, and
                nothing is written. So of two who append on a condition exactly one wins.

        Raises:
            TamperedError: the ledger is broken; nothing is added to it.
            ConfigError: `at` lies before the last line, or the body has no canonical form.
            OSError: the file cannot be written; it is left as it was.
        """
        with self._locked() as descriptor:
            chain = self._check(_read_all(descriptor)).intact(str(self.path))
            if guard is not None:
                guard(chain.entries)
            entry = Entry.following(chain, kind, self._time(at, chain), body)
            content = entry.line + b"\n"
            size = os.fstat(descriptor).st_size
            try:
                _write(descriptor, content)
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, size)
                raise
        sync_folder(self.path.parent)
        return entry

    def check(self, expected_head: str | None = None) -> Chain:
        """As `verify_ledger`, of this file; one that is not there yet has no lines."""
        data = _read(self.path) if self.path.exists() else b""
        return self._check(data) if expected_head is None else verify_chain(data, expected_head)

    def entries(self) -> tuple[Entry, ...]:
        """Every line.

        Raises:
            TamperedError: the ledger is broken.
        """
        return self.check().intact(str(self.path)).entries

    @property
    def head(self) -> str:
        """SHA-256 of the last line; 64 zeros where there is none. Raises as `entries`."""
        return self.check().intact(str(self.path)).head

    def _check(self, data: bytes) -> Chain:
        """Only lines that are new since the last check are parsed; the others must be equal."""
        before, chain = self._verified
        known = chain if before and data.startswith(before) else None
        chain = verify_chain(data, known=known)
        if chain.problem is None:
            self._verified = (data, chain)
        return chain

    def next_time(self, entries: Sequence[Entry]) -> datetime:
        """The earliest time that a line after these can have by the clock as it is now."""
        return max([self._clock(), *(entry.time for entry in entries[-1:])])

    def _time(self, at: datetime | None, chain: Chain) -> str:
        time = self._clock() if at is None else at
        if not chain.entries or time >= chain.entries[-1].time:
            return utc_text(time)
        last = chain.entries[-1]
        if at is None and last.time - time <= MAX_CLOCK_STEP:
            return last.at
        raise ConfigError(
            f"{self.path}: the last line is of {last.at}, which is later than {utc_text(time)}; "
            "a ledger takes no back-dated line: set the clock right"
        )

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)  # and with it the lock


def repair_ledger(path: Path | str) -> Path | None:
    """Take off a last line that a crash cut short, and keep its bytes in a file beside.

    Such a line was never reported as written. Nothing else is ever repaired.

    Returns:
        The file with the bytes; None if there was nothing to repair.

    Raises:
        TamperedError: something else is wrong with the ledger.
        ConfigError: there is no such ledger.
    """
    path = Path(path)
    _read(path)
    with Ledger(path)._locked() as descriptor:
        data = _read_all(descriptor)
        whole = data.rfind(b"\n") + 1
        rest = data[whole:]
        verify_chain(data[:whole]).intact(str(path))
        if not rest:
            return None
        aside = path.with_name(f"{path.name}.cut-{sha256_hex(rest)[:16]}")
        with aside.open("wb") as file:
            file.write(rest)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
        os.ftruncate(descriptor, whole)
        os.fsync(descriptor)
    return aside


def _read(path: Path) -> bytes:
    """The whole file, not in the middle of an append."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return file.read()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror or error}); `specdecode plan seal` begins a "
            "ledger"
        ) from error


def _read_all(descriptor: int) -> bytes:
    parts = []
    offset = 0
    while part := os.pread(descriptor, 1 << 20, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
