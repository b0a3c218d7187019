"""The folder of a load run: what a crash of server, client or machine leaves of it can be read.

    run.json          what was asked, before the first request
    sent.jsonl        one line when a request is sent
    rows.jsonl        one row when it ends; becomes rows.parquet
    requests.jsonl    its details
    warm_up.jsonl     details of warm-up requests
    samples.jsonl     load of the machine over time
    summary.json      written last

A request that was sent and has no row was in flight when the client ended: nothing goes missing
without being counted. Rows are written by a thread of their own, because waiting for a disk would
delay the requests that are due.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from specdecode.durable import written_whole
from specdecode.errors import EvidenceError, UserError
from specdecode.measurement.records import Record
from specdecode.measurement.spool import RowSpool

RUN, SENT, DETAILS, WARM_UP = "run.json", "sent.jsonl", "requests.jsonl", "warm_up.jsonl"
SAMPLES, SUMMARY, ROWS = "samples.jsonl", "summary.json", "rows.parquet"
SPOOL: Final = "rows.jsonl"

_Job = tuple[str, str] | Record | None


class Journal:
    """Writes a run while it goes on.

    Args:
        folder: of the run; must be new or empty.
        run: what was asked, with `manifest_sha256`.

    Raises:
        UserError: the folder holds another run.
    """

    def __init__(self, folder: Path, run: Mapping[str, Any]) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise UserError(
                f"{folder} is not empty; choose a new folder, or recover the run in it "
                f"with: specdecode load --recover {folder}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.failure: Exception | None = None
        self.most_waiting = 0
        with written_whole(folder / RUN) as file:
            file.write(json.dumps(run, indent=2).encode("utf-8") + b"\n")
        self._spool = RowSpool(folder, str(run["manifest_sha256"]))
        self._files = {
            name: _appending(folder / name) for name in (SENT, DETAILS, WARM_UP, SAMPLES)
        }
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="load-journal", daemon=True)
        self._thread.start()

    def sent(self, asked: Mapping[str, Any]) -> None:
        """Note at once that a request is on its way.

        Raises:
            OSError: the disk is full.
        """
        # One small write into the page cache; it survives the end of this process.
        line = {**asked, "started_at": asked["started_at"].isoformat()}
        _append(self._files[SENT], json.dumps(line, allow_nan=False))

    def ended(self, record: Record, details: Mapping[str, Any]) -> None:
        """Hand over the row of a request, and its details."""
        self.most_waiting = max(self.most_waiting, self._jobs.qsize())
        self._jobs.put(record)
        self._jobs.put((DETAILS, json.dumps(details, allow_nan=False)))

    def note(self, file: str, line: Mapping[str, Any]) -> None:
        """Hand over a line of another file."""
        self._jobs.put((file, json.dumps(line, allow_nan=False)))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self.failure is not None:
                continue
            try:
                if isinstance(job, Record):
                    self._spool.append(job)
                else:
                    name, text = job
                    _append(self._files[name], text)
            except Exception as error:  # noqa: BLE001 - a thread cannot raise; the runner looks here
                self.failure = error

    def drain(self) -> None:
        """Wait until all that was handed over is on disk.

        Raises:
            UserError: something could not be written; says what.
        """
        self._jobs.put(None)
        self._thread.join()
        if self.failure is not None:
            raise UserError(
                f"{self.folder}: rows could not be written ({self.failure}); those before are "
                f"safe, read them with: specdecode load --recover {self.folder}"
            ) from self.failure

    def finish(self) -> None:
        """Make the rows one parquet file.

        Raises:
            OSError: it could not be written; the rows are still there.
        """
        self._spool.finish(self.folder / ROWS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._jobs.put(None)
        self._thread.join()
        self._spool.close()
        for handle in self._files.values():
            os.close(handle)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSONL file; a last line that was cut off is left out, a missing file is empty.

    Raises:
        EvidenceError: a line in the middle is not an object.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                value = json.loads(line)
            except ValueError as error:
                raise EvidenceError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(value, dict):
                raise EvidenceError(f"{path}, line {number}: not an object")
            yield value


def _appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _append(handle: int, line: str) -> None:
    data = line.encode("utf-8") + b"\n"
    if os.write(handle, data) < len(data):  # another line behind it would make both unreadable
        raise OSError(errno.ENOSPC, "only half a line could be written; the disk is full")
