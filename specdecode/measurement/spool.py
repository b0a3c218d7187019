"""A crash-safe notebook for rows while they are being measured.

Rows are appended to a JSONL file and synced one by one, so a full disk, Ctrl-C or a power cut
costs at most the row in flight. Only when all rows are there do they become one parquet file.
Measuring again would not repair a lost row: timings cannot be taken twice.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Self

from specdecode.durable import sync_folder
from specdecode.errors import EvidenceError
from specdecode.measurement.lock import FileLock
from specdecode.measurement.records import Record, RowKey, write_parquet

SPOOL_SCHEMA = "specdecode.spool/1"


class RowSpool:
    """Append rows durably, resume after a crash, finish into parquet.

    A spool belongs to one input manifest. One that was begun under another manifest is renamed
    and kept, because its rows are evidence of something else.

    Args:
        folder: where the spool lives; made when missing.
        manifest_sha256: SHA-256 of the inputs every appended row must carry.

    Raises:
        UserError: another process is writing to this spool.
        EvidenceError: a complete line of the spool cannot be read.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path | str, manifest_sha256: str) -> None:
        self.folder = Path(folder)
        self.manifest_sha256 = manifest_sha256
        self.path = self.folder / "rows.jsonl"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(
            lock := self.folder / "rows.lock",
            f"{lock}: another process is measuring into this folder; wait for it or stop it",
        )
        self._file = -1
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.kept_aside = self._keep_other_manifest_aside()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]  # what follows is a write that was cut off
        self._done: set[RowKey] = set()
        for number, line in enumerate(whole.splitlines(keepends=True)[1:], start=2):
            self._done.add(self._parse(line, number).key)
        self._size = len(whole)
        os.ftruncate(self._file, self._size)
        if not whole:
            header = {"schema": SPOOL_SCHEMA, "manifest_sha256": self.manifest_sha256}
            self._write(json.dumps(header))
        sync_folder(self.folder)

    def _keep_other_manifest_aside(self) -> Path | None:
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            first = file.readline()
        if not first.endswith(b"\n"):
            return None  # the crash came before the header was whole: there are no rows
        try:
            header = json.loads(first)
            schema, manifest = header["schema"], header["manifest_sha256"]
        except (ValueError, KeyError, TypeError):
            schema, manifest = "unreadable", "unreadable"
        if (schema, manifest) == (SPOOL_SCHEMA, self.manifest_sha256):
            return None
        number = 1
        while (aside := self.folder / f"rows.{str(manifest)[:12]}.{number}.jsonl").exists():
            number += 1
        self.path.rename(aside)
        return aside

    def _parse(self, line: bytes, number: int) -> Record:
        try:
            record = Record.from_json_line(line.decode("utf-8"))
        except (EvidenceError, UnicodeDecodeError) as error:
            raise EvidenceError(
                f"{self.path}, line {number}: {error}; move the file away to measure from scratch"
            ) from error
        if record.manifest_sha256 != self.manifest_sha256:
            raise EvidenceError(f"{self.path}, line {number}: row of another manifest")
        return record

    @property
    def done(self) -> frozenset[RowKey]:
        """Keys (prompt_id, arm, sampling_name) of the rows that are safely on disk.

        A row with an error counts: repeating a failed request until it succeeds hides failures.
        """
        return frozenset(self._done)

    def append(self, record: Record) -> None:
        """Write one row; on return it survives a crash.

        Raises:
            EvidenceError: the key is already there, or the row is of another manifest.
            OSError: the disk is full or gone; all earlier rows are intact.
        """
        if self._file < 0:
            raise EvidenceError(f"{self.path}: the spool is closed")
        if record.manifest_sha256 != self.manifest_sha256:
            raise EvidenceError(
                f"{record.request_id}: row of manifest {record.manifest_sha256[:12]}, "
                f"spool of {self.manifest_sha256[:12]}"
            )
        if record.key in self._done:
            raise EvidenceError(f"{record.request_id}: already measured; a row is written once")
        self._write(record.to_json_line())
        self._done.add(record.key)

    def _write(self, line: str) -> None:
        data = line.encode("utf-8") + b"\n"
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._size + written)
            os.fsync(self._file)
        except BaseException:  # Ctrl-C too: half a line must not stay behind
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def records(self) -> list[Record]:
        """All rows on disk, in the order they were measured."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        return [self._parse(line, number) for number, line in enumerate(lines[1:], start=2)]

    def finish(self, parquet_path: Path | str) -> None:
        """Write all rows to parquet durably, then remove the spool and close.

        Raises:
            OSError: the parquet file could not be written; the spool is still there.
        """
        write_parquet(self.records(), parquet_path)
        self.path.unlink()
        sync_folder(self.folder)
        self.close()

    def close(self) -> None:
        """Let go of file and lock; rows stay for the next run. Closing twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
