"""What was read of closed segments, kept so that the next look need not read them again.

A stage is judged look by look, and closed segments never change. So each is converted once, into
a file of parquet and one of JSON, in a folder of the reader's own. They stand for the segment only
as long as it is the same file, untouched (size, times, inode), with the same digest beside it, and
only as they were written. Else it is read anew, and refused if it was changed. An open segment is
never kept. Whatever goes wrong with the folder costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from specdecode.durable import written_whole
from specdecode.measurement.records import RECORD_SCHEMA
from specdecode.rollout.spool_rows import rows_of
from specdecode.rollout.spool_snapshot import (
    EXCEPTIONS,
    Exceptions,
    Part,
    digest_of,
    exceptions_among,
)

_SCHEMA: Final = "specdecode.rollout.spool-cache/1"


@dataclass(frozen=True)
class KnownSegment:
    """One closed segment as it was read.

    Attributes:
        rows: file of all its rows.
        exceptions: its lines about rows that do not count or are not there.
    """

    rows: Path
    exceptions: Exceptions

    def tables(self) -> Iterator[pa.Table]:
        """The rows, in pieces that fit into memory."""
        with pq.ParquetFile(self.rows) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number)


class SegmentCache:
    """Keeps what was read of closed segments of one spool.

    Args:
        folder: of what is kept; made when it is needed.

    Attributes:
        read: segments that were read, because nothing good was kept of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read = 0

    def known(self, part: Part) -> KnownSegment | None:
        """What is known of a segment, which is read if it must be.

        Returns:
            None if the segment is not closed, or nothing can be kept.

        Raises:
            EvidenceError: the segment is damaged.
        """
        if part.size is not None:
            return None
        mark = _mark(part)
        if mark is None:
            return None
        found = self._kept(part, mark)
        if found is None:
            self.read += 1
            with contextlib.suppress(OSError):
                found = self._learned(part, mark)
        return found

    def _paths(self, part: Part) -> tuple[Path, Path]:
        stem = part.path.stem
        return self._folder / f"{stem}.parquet", self._folder / f"{stem}.json"

    def _kept(self, part: Part, mark: dict[str, Any]) -> KnownSegment | None:
        rows, about = self._paths(part)
        try:
            told = json.loads(about.read_bytes())
            if told["mark"] != mark or told["rows_sha256"] != _sha256(rows):
                return None
            retracted, lost = told["retracted"], told["lost"]
            return KnownSegment(rows, Exceptions(frozenset(retracted), tuple(lost)))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _learned(self, part: Part, mark: dict[str, Any]) -> KnownSegment | None:
        """Read it, and keep that; None if it was changed meanwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        rows, about = self._paths(part)
        lines: list[dict[str, Any]] = []
        with (
            written_whole(rows) as file,
            pq.ParquetWriter(file, RECORD_SCHEMA, compression="zstd") as writer,
        ):
            for piece in part.pieces():
                writer.write_table(rows_of(piece))
                lines += piece.decoded(*EXCEPTIONS)
        if _mark(part) != mark:
            return None
        found = exceptions_among(lines)
        told = {
            "mark": mark,
            "rows_sha256": _sha256(rows),
            "retracted": sorted(found.retracted),
            "lost": found.lost,
        }
        with written_whole(about) as file:
            file.write(json.dumps(told).encode() + b"\n")
        return KnownSegment(rows, found)


def _mark(part: Part) -> dict[str, Any] | None:
    """By what a segment is known to be the same; None: it cannot be looked at."""
    digest = digest_of(part.path)
    try:
        seen = part.path.stat()
    except OSError:
        return None  # whoever reads it will say what is wrong
    return {
        "schema": _SCHEMA,
        "path": str(part.path.absolute()),
        "sha256": digest,
        # The time of the last change of anything about it cannot be set back.
        "file": [seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns],
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
