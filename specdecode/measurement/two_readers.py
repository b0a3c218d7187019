"""Read all rows once: their hashes, and extracts of them; a large parquet source on two cores.

Hashing a row takes the interpreter's lock, so a second thread would not help: a second process
takes row groups from the end of the files while this one takes them from the start, until they
meet. It reads the files itself and writes what it finds into files that have no name.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from specdecode.errors import EvidenceError
from specdecode.measurement.digest import FaultyRowError, Hasher, HashFiles
from specdecode.measurement.extract import Extract, Extractor, read_extracts
from specdecode.measurement.records import RECORD_SCHEMA
from specdecode.measurement.source import ParquetSource, Source

WORTH_IT = 500_000
"""Rows above which a second process saves more than its start costs, and files save memory."""


@dataclass(frozen=True)
class Rows:
    """What is kept of all rows of a source.

    Args:
        source: the rows.
        hashes: of each row, in any order, for `digest_of`.
        files: their extracts.
    """

    source: Source
    hashes: HashFiles
    files: Sequence[BinaryIO]

    def extracts(self) -> Iterator[Extract]:
        """The extracts of all rows, in any order."""
        for file in self.files:
            yield from read_extracts(file)


def read_rows(source: Source, *, worth_it: int | None = None) -> Rows:
    """Read, check, hash and extract every row.

    Args:
        source: the rows.
        worth_it: from how many rows on to use a second process and files; None for `WORTH_IT`.

    Raises:
        EvidenceError: a row cannot be a record, and the first such row is named; or the rows
            changed while they were read.
    """
    many = source.rows >= (WORTH_IT if worth_it is None else worth_it)
    own = _Reader(*(_nameless() if many else (io.BytesIO(), io.BytesIO())))
    files = [own.files]
    if isinstance(source, ParquetSource) and many and len(source.pieces) > 1:
        files.append(_shared(source, own))
        source.must_be_unchanged()
        pa.default_memory_pool().release_unused()
    else:
        own.read(source.batches(RECORD_SCHEMA.names))
    hashes = HashFiles([each.hashes for each in files], source.rows)
    return Rows(source, hashes, [each.extracts for each in files])


class _Files(NamedTuple):
    """What a reader writes to."""

    hashes: BinaryIO
    extracts: BinaryIO

    def sizes(self) -> list[int]:
        """Bytes written so far."""
        for file in self:
            file.flush()
        return [file.tell() for file in self]


class _Reader:
    """Writes down what is kept of rows."""

    def __init__(self, hashes: BinaryIO, extracts: BinaryIO) -> None:
        self.files = _Files(hashes, extracts)
        self._hasher, self._extractor = Hasher(), Extractor()

    def read(self, batches: Iterator[pa.RecordBatch], first: int = 0) -> None:
        """Take in rows, the first of which has this number."""
        for batch in batches:
            self.files.hashes.write(self._hasher.of(batch, first))
            self._extractor.of(batch, first).write(self.files.extracts)
            first += batch.num_rows


def _nameless() -> _Files:
    """Files that are gone when they are closed, however this process ends."""
    return _Files(tempfile.TemporaryFile(), tempfile.TemporaryFile())


def _piece(source: ParquetSource, number: int) -> tuple[Iterator[pa.RecordBatch], int]:
    """The batches of one piece, and the number of their first row."""
    piece = source.pieces[number]
    first = sum(before.rows for before in source.pieces[:number])
    return source.batches_of([piece], RECORD_SCHEMA.names), first


def _shared(source: ParquetSource, own: _Reader) -> _Files:
    """Read with a second process, whose files are returned."""
    left = deque(range(len(source.pieces)))
    other = _Second(source, left)
    with other.process, ThreadPoolExecutor(1) as beside:
        helping = beside.submit(other.follow)
        try:
            _read_left(source, left, own)
            helping.result()
            _read_left(source, left, own)  # what a second process that ended has left undone
        except BaseException:
            other.process.kill()
            raise
    # All that this process has read comes before, and was found without a fault.
    if other.faults:
        raise other.faults[min(other.faults)]
    return other.done()


def _read_left(source: ParquetSource, left: deque[int], own: _Reader) -> None:
    while (number := _taken(left.popleft)) is not None:
        own.read(*_piece(source, number))


def _taken(take: Callable[[], int]) -> int | None:
    """The next piece at one end; None when there is none left, which only taking it can tell."""
    try:
        return take()
    except IndexError:
        return None


class _Second:
    """The second process, seen from the first.

    It is told the number of a piece, a line each, and answers when it has written down what is kept
    of it: {"written": [bytes of hashes, of extracts]}, or {"row": …, "problem": …}.
    """

    def __init__(self, source: ParquetSource, left: deque[int]) -> None:
        self._left = left
        self._files = _nameless()
        self._written = [0, 0]
        self.faults: dict[int, EvidenceError] = {}
        numbers = [file.fileno() for file in self._files]
        given = [str(source.path.absolute()), json.dumps(source.identity()), *map(str, numbers)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # or what could not be written would be tried again when all is closed
            pass_fds=numbers,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def follow(self) -> None:
        """Give it pieces until none is left, or it has ended."""
        while (number := _taken(self._left.pop)) is not None:
            try:
                answer = self._ask(number)
            except (OSError, ValueError):  # it was killed, or could not be started
                self._left.append(number)
                return
            if "written" in answer:
                self._written = answer["written"]
            else:
                self.faults[number] = _fault(answer)

    def _ask(self, number: int) -> dict[str, Any]:
        to, of = self.process.stdin, self.process.stdout
        if to is None or of is None:
            raise OSError("the second process has no pipes")
        to.write(f"{number}\n".encode())
        answer: dict[str, Any] = json.loads(of.readline())
        return answer

    def done(self) -> _Files:
        """What it has kept, but for a piece it has not finished."""
        for file, size in zip(self._files, self._written, strict=True):
            file.truncate(size)
        return self._files


def _fault(answer: dict[str, Any]) -> EvidenceError:
    if answer["row"] is None:
        return EvidenceError(answer["problem"])
    return FaultyRowError(answer["row"], answer["problem"])


def main(path: str, identity: str, hashes: str, extracts: str) -> int:
    """The second process."""
    source = ParquetSource(Path(path))
    if source.identity() != json.loads(identity):
        return 1  # to other files the numbers of pieces would mean others
    with os.fdopen(int(hashes), "wb") as one, os.fdopen(int(extracts), "wb") as other:
        reader = _Reader(one, other)
        for line in sys.stdin:
            answer: dict[str, Any]
            try:
                reader.read(*_piece(source, int(line)))
                answer = {"written": reader.files.sizes()}
            except FaultyRowError as error:
                answer = {"row": error.row, "problem": error.problem}
            except EvidenceError as error:
                answer = {"row": None, "problem": str(error)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
