"""A digest of rows that depends on their content only, not on file, order or compression.

SHA-256 over the sorted SHA-256 hashes of the rows, each of the bytes that `encoding` defines. Two
sets of rows with one digest would be a collision of SHA-256; a sum or an exclusive or of the hashes
would be easy to forge (Bellare and Micciancio, EUROCRYPT 1997; Wagner, CRYPTO 2002). Rows are
hashed in batches and only their hashes kept, 32 bytes a row, so the wide columns of ten million
rows are read once and never held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.errors import EvidenceError
from specdecode.measurement.encoding import Encoder
from specdecode.measurement.records import RECORD_SCHEMA, Record, to_table
from specdecode.measurement.source import BATCH_ROWS, Source
from specdecode.measurement.validity import Validity

HASH_BYTES = 32
HashArray = npt.NDArray[np.uint8]

_DOMAIN = b"specdecode.rows/2\n"
_MOST_BYTES = 128 << 20  # of a batch that is hashed in one go


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
        hashes = np.empty((rows.rows, HASH_BYTES), np.uint8)
        fill(hashes, hashes_of(rows.batches(RECORD_SCHEMA.names)))
        return digest_of(hashes)
    encoder = Encoder()
    found = b"".join(
        hash_rows(batch, encoder) for table in _tables(rows) for batch in table.to_batches()
    )
    return digest_of(np.frombuffer(found, np.uint8).reshape(-1, HASH_BYTES))


def hashes_of(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The hashes of the rows of each batch, in order.

    Raises:
        FaultyRowError: the first row that is not valid.
    """
    encoder, validity, done = Encoder(), Validity(), 0
    for whole in batches:
        for batch in _bounded(whole):
            if (fault := validity.fault(batch)) is not None:
                raise FaultyRowError(done + fault[0], fault[1])
            yield hash_rows(batch, encoder)
            done += batch.num_rows


def fill(hashes: HashArray, found: Iterable[bytes]) -> None:
    """Write hashes into their rows, [n, 32].

    Raises:
        EvidenceError: there are more or fewer than n.
    """
    done = 0
    for some in found:
        rows = np.frombuffer(some, np.uint8).reshape(-1, HASH_BYTES)
        if done + len(rows) <= len(hashes):
            hashes[done : done + len(rows)] = rows
        done += len(rows)
    if done != len(hashes):
        raise EvidenceError(f"{done} rows were found where {len(hashes)} were announced")


def hash_rows(batch: pa.RecordBatch, encoder: Encoder) -> bytes:
    """SHA-256 of each row, one after another."""
    data, where = encoder.encode(batch)
    sha256 = hashlib.sha256
    return b"".join([sha256(data[start:end]).digest() for start, end in pairwise(where)])


def digest_of(hashes: HashArray) -> str:
    """SHA-256 over the sorted hashes, [n, 32]."""
    digest = hashlib.sha256(_DOMAIN)
    first = hashes[:, 0] >> 4
    for part in range(16):  # a sixteenth at a time: sorting all at once takes twice the memory
        digest.update(_sorted(hashes[first == part]).tobytes())
    return digest.hexdigest()


def _sorted(hashes: HashArray) -> HashArray:
    lead = hashes[:, :8].copy().view(">u8").ravel().astype("<u8")
    order = np.argsort(lead)
    lead = lead[order]
    if (lead[1:] != lead[:-1]).all():  # all are told apart by eight bytes, unless a row is repeated
        return hashes[order]
    whole = np.sort(hashes.view(f"S{HASH_BYTES}").ravel())
    return whole.view(np.uint8).reshape(-1, HASH_BYTES)


def _tables(records: Iterable[Record]) -> Iterator[pa.Table]:
    left = iter(records)
    while some := list(islice(left, BATCH_ROWS // 16)):
        yield to_table(some)


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _MOST_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _bounded(batch.slice(0, half))
    yield from _bounded(batch.slice(half))
