"""Rows that are read in batches, as often as needed, and never held as a whole.

A table in memory, a parquet file, or a folder of parquet files (read in the order of their names)
look alike from here on: batches with columns of `RECORD_SCHEMA`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from specdecode.errors import EvidenceError
from specdecode.measurement.arrays import taken
from specdecode.measurement.records import LABELS, RECORD_SCHEMA, checked

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20


class Piece(NamedTuple):
    """A row group of a file: the least that is read on its own; None where a file has none."""

    file: int
    group: int | None
    rows: int


class Source(ABC):
    """Rows in a fixed order."""

    rows: int

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Every row once, in order, with these columns only, in the order given.

        Columns of text with few different values may come as dictionary arrays.

        Raises:
            EvidenceError: a column is missing, unknown, of another type, or null where it may not
                be; or the rows changed since they were opened.
        """

    def take(self, column: str, wanted: Sequence[int]) -> list[object]:
        """Values of one column at some row numbers, in the order asked for."""
        rows = np.unique(np.asarray(wanted, dtype=np.int64))
        values: list[object] = []
        start = 0
        for batch in self.batches([column]):
            here = rows[len(values) : np.searchsorted(rows, start + batch.num_rows)] - start
            values += taken(batch.column(0), here).to_pylist()
            start += batch.num_rows
        return [values[place] for place in np.searchsorted(rows, wanted).tolist()]


class TableSource(Source):
    """A table in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = checked(table)
        self.rows = table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See `Source`."""
        yield from self._table.select(columns).to_batches(max_chunksize=BATCH_ROWS)


class ParquetSource(Source):
    """A parquet file, or a folder of them.

    Raises:
        EvidenceError: no such file, an empty folder, or not parquet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = self._found()
        if not self.files or not all(file.is_file() for file in self.files):
            raise EvidenceError(
                f"{path}: there are no parquet files; `make evaluate` measures rows"
            )
        self._seen = self.identity()
        self.pieces: list[Piece] = []
        for number, file in enumerate(self.files):
            meta = _open(file).metadata
            sizes = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
            self.pieces += [Piece(number, group, rows) for group, rows in enumerate(sizes)]
            if not sizes:  # its columns are to be checked all the same
                self.pieces.append(Piece(number, None, 0))
        self.rows = sum(piece.rows for piece in self.pieces)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See `Source`."""
        yield from _ahead(self.batches_of(self.pieces, columns))
        pa.default_memory_pool().release_unused()
        self.must_be_unchanged()

    def must_be_unchanged(self) -> None:
        """Raise EvidenceError if a file is no longer what was opened."""
        if self._found() != self.files or self.identity() != self._seen:
            raise EvidenceError(f"{self.path}: the rows changed while they were read")

    def batches_of(
        self, pieces: Sequence[Piece], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The same of some pieces only."""
        for number, file in enumerate(self.files):
            groups = [piece.group for piece in pieces if piece.file == number]
            if not groups:
                continue
            opened = _open(file)
            names = _names(opened.schema_arrow, columns, file)
            size = _batch_rows(opened.metadata)
            try:
                for group in groups:  # one by one: a reader keeps what it has read of its groups
                    if group is None:
                        continue
                    for batch in opened.iter_batches(size, row_groups=[group], columns=names):
                        for column in batch.columns:  # damage may leave codes without a text
                            if pa.types.is_dictionary(column.type):
                                column.validate(full=True)
                        yield _fitted(batch, columns, file)
            except (pa.ArrowException, OSError) as error:
                raise EvidenceError(_unreadable(file, error)) from error

    def identity(self) -> list[list[int]]:
        """What tells the files from others: inode, size, time of the last change."""
        stats = [file.stat() for file in self.files]
        return [[stat.st_ino, stat.st_size, stat.st_mtime_ns] for stat in stats]

    def _found(self) -> list[Path]:
        return sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, each read while the one before is looked at."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _open(path: Path) -> pq.ParquetFile:
    try:
        with pq.ParquetFile(path) as plain:
            meta = plain.metadata
        # Asked for a column that is not there, pyarrow raises a KeyError and no error of its own.
        # Which columns are missing is told where they are compared.
        found = {meta.schema.column(place).path for place in range(meta.num_columns)}
        coded = [name for name in LABELS if name in found]
        return pq.ParquetFile(path, read_dictionary=coded, metadata=meta)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names that are no text
        raise EvidenceError(_unreadable(path, error)) from error


def _unreadable(path: Path, error: Exception) -> str:
    return f"{path}: cannot be read as parquet ({error}); restore it or measure again"


def _names(schema: pa.Schema, columns: Sequence[str], file: Path) -> list[str]:
    """Those of the columns that the file has, once it is known to have no wrong ones."""
    checked(schema.empty_table(), file)
    return [name for name in columns if name in schema.names]


def _batch_rows(meta: pq.FileMetaData) -> int:
    """Fewer rows at a time where rows are wide."""
    size = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
    width = max(1, size // max(1, meta.num_rows))
    return max(1024, min(BATCH_ROWS, _BATCH_BYTES // width))


def _fitted(batch: pa.RecordBatch, columns: Sequence[str], file: Path) -> pa.RecordBatch:
    """The columns asked for, in their types; what the file lacks is null."""
    arrays = []
    for name in columns:
        field = RECORD_SCHEMA.field(name)
        if name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        array = batch.column(name)
        if not field.nullable and array.null_count:
            raise EvidenceError(f"{file}: column {name} has {array.null_count} nulls")
        coded = pa.types.is_dictionary(array.type) and array.type.value_type == field.type
        try:
            arrays.append(array if coded or array.type == field.type else array.cast(field.type))
        except pa.ArrowException as error:
            raise EvidenceError(
                f"{file}: column {name} is {array.type}, not {field.type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
