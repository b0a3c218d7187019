"""The files of a spool as they were at one moment, line by line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from specdecode.errors import EvidenceError
from specdecode.rollout.spool_lines import (
    WITHOUT_ROW,
    beginnings,
    decoded,
    is_spool,
    name_of,
    segments,
)
from specdecode.rollout.spool_segment import digest_path

_MOST_BYTES: Final = 4 << 20
_TRIES: Final = 10


@dataclass(frozen=True)
class Piece:
    """Some whole lines of one file, the first of which has the number `first`."""

    path: Path
    first: int
    lines: list[bytes]

    def decoded(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """The lines of some kinds, in order.

        Raises:
            EvidenceError: one of them cannot be read.
        """
        wanted = beginnings(*kinds)
        for number, line in enumerate(self.lines, start=self.first):
            if line.startswith(wanted):
                try:
                    yield decoded(line)
                except (ValueError, RecursionError) as error:
                    raise EvidenceError(
                        f"{self.path}, line {number}: {error}; restore the segment from a copy"
                    ) from error


@dataclass(frozen=True)
class Part:
    """One segment.

    Args:
        path: of its file.
        number: of the segment.
        size: bytes to read of an open one; None for a closed one, which is read as a whole.
    """

    path: Path
    number: int
    size: int | None

    def pieces(self) -> Iterator[Piece]:
        """All lines, in pieces that fit into memory.

        Raises:
            EvidenceError: it was changed, or cannot be read.
        """
        wanted = None if self.size is not None else digest_of(self.path)
        digest, left, number = hashlib.sha256(), self.size, 1
        try:
            with self._opened() as file:
                while lines := file.readlines(_MOST_BYTES):
                    if left is not None:
                        lines, left = _whole(lines, left)
                    if not lines:
                        break
                    digest.update(b"".join(lines))
                    self._check(lines, number)
                    yield Piece(self.path, number, lines)
                    number += len(lines)
        except OSError as error:
            raise EvidenceError(f"{self.path}: cannot be read ({error})") from error
        if wanted is not None and digest.hexdigest() != wanted:
            raise EvidenceError(
                f"{self.path}: has another digest than {digest_path(self.path).name} says; it was "
                "changed after it was closed: restore it from a copy"
            )

    def _check(self, lines: Sequence[bytes], first: int) -> None:
        for number, line in enumerate(lines, start=first):
            if not (line.startswith(b'{"kind": "') and line.endswith(b"}\n")):
                raise EvidenceError(
                    f"{self.path}, line {number}: no line of a spool; restore the segment from a "
                    "copy"
                )

    def _opened(self) -> Any:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            if self.size is None:
                raise
            return self.path.with_name(name_of(self.number, closed=True)).open("rb")


class Exceptions(NamedTuple):
    """Requests whose rows do not count, and the lines about rows that were lost."""

    retracted: frozenset[str]
    lost: tuple[dict[str, Any], ...]


EXCEPTIONS: Final = ("lost", *sorted(WITHOUT_ROW))
"""Kinds of lines that say which rows do not count or are not there."""


def exceptions_among(lines: Iterable[dict[str, Any]]) -> Exceptions:
    """What such lines say together."""
    retracted: set[str] = set()
    lost: list[dict[str, Any]] = []
    for line in lines:
        if line["kind"] == "lost":
            lost.append(line)
        else:
            retracted.update(line.get("retract", ()))
    return Exceptions(frozenset(retracted), tuple(lost))


class Known(Protocol):
    """What was read of a closed segment before."""

    @property
    def exceptions(self) -> Exceptions:
        """Its lines about rows that do not count or are not there."""


class Memory(Protocol):
    """Keeps what was read of closed segments; see spool_cache.py."""

    def known(self, part: Part) -> Known | None:
        """What is known of a segment, which is read if it must be; None: it is not closed."""


class Snapshot:
    """What a spool holds now.

    Args:
        folder: of the spool.
        memory: of closed segments; None reads all of them.

    Raises:
        EvidenceError: there is no spool, or a segment is missing.
    """

    def __init__(self, folder: Path, memory: Memory | None = None) -> None:
        if not is_spool(folder):
            raise EvidenceError(
                f"{folder} is no spool of a router; give the folder 'spool' of its --state-dir"
            )
        self.folder, self.parts = folder, _listed(folder)
        self._memory = memory
        self._exceptions: Exceptions | None = None

    def lines(self, *kinds: str, unfinished: bool = False) -> Iterator[dict[str, Any]]:
        """The lines of some kinds, in order.

        Args:
            kinds: of lines.
            unfinished: only those of segments that are not closed yet.

        Raises:
            EvidenceError: a segment was changed, or a line cannot be read.
        """
        for part in self.parts:
            if unfinished and part.size is None:
                continue
            for piece in part.pieces():
                yield from piece.decoded(*kinds)

    def exceptions(self) -> Exceptions:
        """Rows that do not count, and rows that are not there; read once.

        Raises:
            EvidenceError: as `lines`.
        """
        if self._exceptions is None:
            found = [self._exceptions_in(part) for part in self.parts]
            self._exceptions = Exceptions(
                frozenset().union(*(each.retracted for each in found)),
                tuple(line for each in found for line in each.lost),
            )
        return self._exceptions

    def _exceptions_in(self, part: Part) -> Exceptions:
        known = None if self._memory is None else self._memory.known(part)
        if known is not None:
            return known.exceptions
        return exceptions_among(
            line for piece in part.pieces() for line in piece.decoded(*EXCEPTIONS)
        )

    def lost(self, wants: Callable[[str | None, str | None, str | None], bool]) -> list[str]:
        """What could not be written of the rows that are wanted, a message for each.

        Raises:
            EvidenceError: as `lines`.
        """
        return [
            f"{self.folder}: {rows} rows of {stage} could not be recorded ({line['why']}), so what "
            "is left may be a choice; judge a stage that was recorded as a whole"
            for line in self.exceptions().lost
            for stage, step, manifest, rows in line["of"]
            if wants(stage, step, manifest)
        ]


def _listed(folder: Path) -> list[Part]:
    """The segments, in order. A router may close one just now, under the eyes of who lists them.

    Raises:
        EvidenceError: one is missing, or there twice, however often one looks.
    """
    fault = EvidenceError(f"{folder}: segments change faster than they can be listed")
    for _ in range(_TRIES):
        try:
            closed, unfinished = segments(folder)
            parts = [Part(path, each, None) for each, path in closed.items()]
            parts += [Part(p, each, p.stat().st_size) for each, p in unfinished.items()]
            # A listing that took place while a segment was closed may lack the one that follows.
            if segments(folder) == (closed, unfinished):
                return sorted(parts, key=lambda part: part.number)
        except FileNotFoundError:
            continue
        except EvidenceError as error:
            fault = error
    raise fault


def _whole(lines: list[bytes], left: int) -> tuple[list[bytes], int]:
    """The lines that end within so many bytes, and how many are left.

    What follows the router is still writing, or was cut off while it did.
    """
    found: list[bytes] = []
    for line in lines:
        if len(line) > left or not line.endswith(b"\n"):
            return found, 0
        found.append(line)
        left -= len(line)
    return found, left


def digest_of(path: Path) -> str:
    """The digest of a closed segment, as the file beside it says.

    Raises:
        EvidenceError: there is none.
    """
    sidecar = digest_path(path)
    try:
        text = sidecar.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(
            f"{sidecar}: cannot be read ({error}); a closed segment has a digest: restore it"
        ) from error
    if match := re.fullmatch(rf"([0-9a-f]{{64}})  {re.escape(path.name)}\n", text):
        return match[1]
    raise EvidenceError(f"{sidecar}: is no digest of {path.name}; restore it")
