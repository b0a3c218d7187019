"""The hashes of the rows of a large parquet source, on two cores.

Hashing a row takes the interpreter's lock, so a second thread would not help: the later half of the
row groups is hashed by a second process, which reads the files itself and hands back hashes only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from specdecode.errors import EvidenceError
from specdecode.measurement.digest import (
    FaultyRowError,
    HashArray,
    HashFiles,
    hashes_of,
    hashes_of_source,
)
from specdecode.measurement.records import RECORD_SCHEMA
from specdecode.measurement.source import ParquetSource, Piece, Source

WORTH_IT = 500_000
"""Rows above which a second process saves more than its start costs."""

_FAULTY = 3


def row_hashes(source: Source, *, worth_it: int = WORTH_IT) -> Iterable[HashArray]:
    """The hashes of all rows of a source, in pieces, for `digest_of`.

    Raises:
        EvidenceError: a row cannot be a record; the first such row is named.
    """
    cut = _cut(source.pieces, source.rows) if isinstance(source, ParquetSource) else 0
    if not isinstance(source, ParquetSource) or source.rows < worth_it or not cut:
        return [hashes_of_source(source)]
    early, later = source.pieces[:cut], source.pieces[cut:]
    # Hashes go to files, for a pipe would block the second process; neither file has a name.
    own, others = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - read later
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(source.path.absolute()), str(cut)],
        stdin=subprocess.DEVNULL,
        stdout=others,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as second:
        try:
            own.writelines(hashes_of(source.batches_of(early, RECORD_SCHEMA.names)))
        except BaseException:
            second.kill()
            raise
        _, said = second.communicate()
    if second.returncode == _FAULTY:
        raise _fault(said, sum(piece.rows for piece in early))
    if second.returncode:  # it was killed, or could not be started: its half is still to do
        others.seek(0)
        others.truncate()
        others.writelines(hashes_of(source.batches_of(later, RECORD_SCHEMA.names)))
    source.must_be_unchanged()
    own.flush()
    others.flush()
    return HashFiles([own, others], source.rows)


def _fault(said: bytes, before: int) -> EvidenceError:
    fault = json.loads(said.splitlines()[-1])
    if fault["row"] is None:
        return EvidenceError(fault["problem"])
    return FaultyRowError(before + fault["row"], fault["problem"])


def _cut(pieces: Sequence[Piece], rows: int) -> int:
    """How many pieces make up the first half."""
    before = np.cumsum([0, *(piece.rows for piece in pieces)])
    return int(np.argmin(np.abs(before - rows / 2)))


def main(path: str, cut: str) -> int:
    """The second process: hashes to stdout, or what is wrong to stderr."""
    source = ParquetSource(Path(path))
    try:
        for some in hashes_of(source.batches_of(source.pieces[int(cut) :], RECORD_SCHEMA.names)):
            sys.stdout.buffer.write(some)
    except EvidenceError as error:
        row, problem = None, str(error)
        if isinstance(error, FaultyRowError):
            row, problem = error.row, error.problem
        fault = {"row": row, "problem": problem}
        sys.stderr.write(json.dumps(fault) + "\n")
        return _FAULTY
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
