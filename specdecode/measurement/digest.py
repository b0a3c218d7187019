"""A digest of rows that depends on their content only, not on file, order or compression.

SHA-256 over the sorted SHA-256 hashes of the rows, each of the bytes that `encoding` defines. Two
sets of rows with one digest would be a collision of SHA-256; a sum or an exclusive or of the hashes
would be easy to forge (Bellare and Micciancio, EUROCRYPT 1997; Wagner, CRYPTO 2002). Rows are
hashed in batches and only their hashes kept, 32 bytes a row, so the wide columns of ten million
rows are read once and never held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.errors import EvidenceError
from specdecode.measurement.encoding import Encoder, LabelHashes
from specdecode.measurement.records import RECORD_SCHEMA, Record, to_table
from specdecode.measurement.source import Source
from specdecode.measurement.validity import Validity

HASH_BYTES = 32
HashArray = npt.NDArray[np.uint8]

_RECORDS = 1024  # made into a table at a time
_DOMAIN = b"specdecode.rows/2\n"
_SHIFT = 5
_PARTS = 256 >> _SHIFT
_MOST_ROWS, _MOST_BYTES = 1 << 14, 128 << 20  # that are hashed in one go, while in the cache


class FaultyRowError(EvidenceError):
    """A row that no record can be.

    Args:
        row: its number among those read.
        problem: "(request): field: what is wrong".
    """

    def __init__(self, row: int, problem: str) -> None:
        self.row, self.problem = row, problem
        super().__init__(f"row {row} {problem}")


def rows_sha256(rows: Iterable[Record] | Source) -> str:
    """The digest of rows.

    Args:
        rows: records, or a source whose rows are validated on the way.

    Raises:
        EvidenceError: a row of the source cannot be a record; the first such row is named.
    """
    if isinstance(rows, Source):
        return digest_of([hashes_of_source(rows)])
    encoder = Encoder()
    batches = (batch for table in _tables(rows) for batch in table.to_batches())
    found = b"".join(hash_rows(batch, encoder) for batch in batches)
    return digest_of([np.frombuffer(found, np.uint8).reshape(-1, HASH_BYTES)])


def hashes_of_source(source: Source) -> HashArray:
    """The hash of each row, [n, 32].

    Raises:
        EvidenceError: a row cannot be a record; the first such row is named.
    """
    found = b"".join(hashes_of(source.batches(RECORD_SCHEMA.names)))
    return np.frombuffer(found, np.uint8).reshape(-1, HASH_BYTES)


def hashes_of(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The hashes of the rows of each batch, in order.

    Raises:
        FaultyRowError: the first row that is not valid.
    """
    hasher, done = Hasher(), 0
    for batch in batches:
        yield hasher.of(batch, done)
        done += batch.num_rows


class Hasher:
    """Hashes rows batch by batch, but only valid ones."""

    def __init__(self) -> None:
        self._encoder, self._validity = Encoder(), Validity()

    def of(self, batch: pa.RecordBatch, first: int = 0) -> bytes:
        """The hashes of the rows of a batch, whose first row has this number.

        Raises:
            FaultyRowError: the first row that is not valid.
        """
        try:  # once for all parts
            labels = self._encoder.labels(batch)
        except (EvidenceError, ValueError):
            labels = None  # something is wrong in one of the parts, which will tell in its turn
        found = []
        for start, part in _parts(batch):
            if (fault := self._validity.fault(part)) is not None:
                raise FaultyRowError(first + start + fault[0], fault[1])
            own = labels and [hashes[start : start + part.num_rows] for hashes in labels]
            found.append(hash_rows(part, self._encoder, own))
        return b"".join(found)


def hash_rows(
    batch: pa.RecordBatch, encoder: Encoder, labels: Sequence[LabelHashes] | None = None
) -> bytes:
    """SHA-256 of each row, one after another."""
    data, where = encoder.encode(batch, labels)
    sha256 = hashlib.sha256
    return b"".join([sha256(data[start:end]).digest() for start, end in pairwise(where)])


class HashFiles:
    """Hashes in open files, read from their start whenever they are iterated over.

    Raises:
        EvidenceError: on iteration, if there are more or fewer than announced.
    """

    def __init__(self, files: Sequence[BinaryIO], announced: int) -> None:
        self._files, self._announced = files, announced

    def __iter__(self) -> Iterator[HashArray]:
        found = 0
        for file in self._files:
            file.seek(0)
            while some := file.read(HASH_BYTES << 16):
                hashes = np.frombuffer(some, np.uint8).reshape(-1, HASH_BYTES)
                found += len(hashes)
                yield hashes
        if found != self._announced:
            raise EvidenceError(f"{found} rows were found where {self._announced} were announced")


def digest_of(hashes: Iterable[HashArray]) -> str:
    """SHA-256 over the sorted hashes.

    Args:
        hashes: in pieces [n, 32]; gone through several times, an eighth of them sorted each time,
            so that not all have to be held.
    """
    digest = hashlib.sha256(_DOMAIN)
    sizes = sum(
        (np.bincount(piece[:, 0] >> _SHIFT, minlength=_PARTS) for piece in hashes),
        start=np.zeros(_PARTS, np.int64),
    )
    for part, size in enumerate(sizes.tolist()):
        some, done = np.empty((size, HASH_BYTES), np.uint8), 0
        for piece in hashes:
            inside = piece[:, 0] >> _SHIFT == part
            end = done + int(np.count_nonzero(inside))
            np.compress(inside, piece, axis=0, out=some[done:end])
            done = end
        digest.update(_sorted(some).data)
    return digest.hexdigest()


def _sorted(hashes: HashArray) -> HashArray:
    """By their first eight bytes, and where those are not enough by all."""
    lead = hashes[:, :8].copy().view(">u8").ravel().astype("<u8")
    order = np.argsort(lead)
    lead = lead[order]
    if (lead[1:] != lead[:-1]).all():
        return hashes[order]
    whole = np.sort(hashes.view(f"S{HASH_BYTES}").ravel())
    return whole.view(np.uint8).reshape(-1, HASH_BYTES)


def _tables(records: Iterable[Record]) -> Iterator[pa.Table]:
    left = iter(records)
    while some := list(islice(left, _RECORDS)):
        yield to_table(some)


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows in parts that are hashed in one go, and where each starts."""
    small = batch.nbytes <= _MOST_BYTES
    for start in range(0, batch.num_rows, _MOST_ROWS):
        part = batch.slice(start, _MOST_ROWS)
        yield from [(start, part)] if small else _halved(part, start)


def _halved(batch: pa.RecordBatch, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if batch.nbytes <= _MOST_BYTES or batch.num_rows < 2:
        yield start, batch
        return
    half = batch.num_rows // 2
    yield from _halved(batch.slice(0, half), start)
    yield from _halved(batch.slice(half), start + half)
