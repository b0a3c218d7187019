"""The journal of a release: what a flow was about to do, and what it did, in that order.

One line of canonical JSON each, on disk before anything is done about it; each holds the SHA-256
of the line before, so an edit shows. A run that is killed leaves at most one decision without its
end. The next run finds it and brings it to its end, or says that it was given up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from specdecode.durable import sync_folder
from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.canonical import canonical_bytes, parse_canonical, sha256_hex
from specdecode.governance.timestamps import utc_now, utc_text

SCHEMA = "specdecode.journal/1"
START = "0" * 64

Event = Literal["decided", "done", "given_up", "told", "asked", "held", "refused"]
"""An action is decided, then done or given up; people are told or asked; a hold came to stay."""

_FIELDS = {"schema", "number", "previous", "at", "event", "key", "details"}


class AnotherRunError(ConfigError):
    """Another run holds this journal; only one acts on a release at a time."""


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        number: 0 for the first.
        at: when, by the clock of the run that wrote it.
        event: what happened.
        key: the step of the release it is about (`ladder_facts.stage_key`).
        details: what a later run needs to know of it.
    """

    number: int
    at: str
    event: Event
    key: str
    details: Mapping[str, Any]


class Journal:
    """Read and append to one journal.

    Args:
        path: the file; its folder must be there.
        clock: tells the time of a line.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        self.path, self._clock = path, clock

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While open, no other run acts on this release; a crash gives it free by itself.

        Raises:
            AnotherRunError: another run is at it.
        """
        with self.path.with_suffix(".lock").open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise AnotherRunError(
                    f"{self.path}: another run is at this release; wait until it ends"
                ) from error
            self._cut_torn_end()
            yield

    def lines(self) -> list[Line]:
        """Every whole line, in order.

        Raises:
            TamperedError: a line is not what was written.
        """
        if not self.path.exists():
            return []
        *whole, _ = self.path.read_bytes().split(b"\n")
        found, previous = [], START
        for number, raw in enumerate(whole):
            found.append(self._read(raw, number, previous))
            previous = sha256_hex(raw)
        return found

    def write(self, event: Event, key: str, **details: Any) -> Line:
        """Append one line; on return it survives a power cut.

        Raises:
            OSError: it cannot be written; nothing must be done about it then.
        """
        content = self.path.read_bytes() if self.path.exists() else b""
        *whole, rest = content.split(b"\n")
        if rest:
            raise EvidenceError(f"{self.path}: its end is torn; open the journal with alone()")
        line = {
            "schema": SCHEMA,
            "number": len(whole),
            "previous": sha256_hex(whole[-1]) if whole else START,
            "at": utc_text(self._clock()),
            "event": event,
            "key": key,
            "details": details,
        }
        raw = canonical_bytes(line)
        with self.path.open("ab") as file:
            try:
                file.write(raw + b"\n")
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), len(content))
                raise
        sync_folder(self.path.parent)
        return self._read(raw, len(whole), str(line["previous"]))

    def _read(self, raw: bytes, number: int, previous: str) -> Line:
        where = f"{self.path}, line {number + 1}"
        try:
            document = parse_canonical(raw)
        except ConfigError as error:
            raise TamperedError(f"{where}: is not what was written: {error}") from error
        if not isinstance(document, dict) or set(document) != _FIELDS:
            raise TamperedError(f"{where}: is no line of a journal")
        if (document["number"], document["previous"]) != (number, previous):
            raise TamperedError(f"{where}: does not follow the line before it")
        return Line(number, document["at"], document["event"], document["key"], document["details"])

    def _cut_torn_end(self) -> None:
        """A line that a crash cut short was never acted on; its bytes are kept beside."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        torn = content[end:]
        if not torn:
            return
        aside = self.path.with_name(f"{self.path.name}.torn-{sha256_hex(torn)[:16]}")
        aside.write_bytes(torn)
        with self.path.open("r+b") as file:
            os.ftruncate(file.fileno(), end)
            os.fsync(file.fileno())
        sync_folder(self.path.parent)
