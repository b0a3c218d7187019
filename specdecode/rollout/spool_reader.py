"""Rows out of a spool, also while a router writes to it.

A reader sees the files as they are at one moment: closed segments as a whole, which must have the
digest beside them, and of the open one the lines that are whole by then. Rows are read in pieces,
so that a million of them never stand in memory as objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specdecode.errors import EvidenceError
from specdecode.measurement.records import RECORD_SCHEMA
from specdecode.measurement.source import ParquetSource
from specdecode.rollout.spool_cache import SegmentCache
from specdecode.rollout.spool_rows import rows_of
from specdecode.rollout.spool_settled import in_flight
from specdecode.rollout.spool_snapshot import Snapshot


@dataclass(frozen=True)
class Selection:
    """Which rows of a spool are wanted; None wants all.

    Args:
        stage: shadow, canary or watch.
        step: of a canary, as `RolloutState.step` names it.
        manifest_sha256: what was under judgement.
        settled: only rows that are final though requests are in flight (see spool_settled.py);
            whoever judges wants these.
    """

    stage: str | None = None
    step: str | None = None
    manifest_sha256: str | None = None
    settled: bool = True

    def wants(self, stage: str | None, step: str | None, manifest: str | None) -> bool:
        """Whether rows of these are."""
        pairs = ((self.stage, stage), (self.step, step), (self.manifest_sha256, manifest))
        return all(wanted is None or wanted == found for wanted, found in pairs)

    def of(self, rows: pa.Table) -> pa.Table:
        """Those that are."""
        columns = {
            "stage": self.stage,
            "profile": self.step,
            "manifest_sha256": self.manifest_sha256,
        }
        for name, wanted in columns.items():
            if wanted is not None:
                rows = rows.filter(pc.equal(rows.column(name), pa.scalar(wanted)))
        return rows


def read_spool(
    folder: Path,
    *,
    stage: str | None = None,
    step: str | None = None,
    manifest_sha256: str | None = None,
    settled: bool = True,
    memory: SegmentCache | None = None,
) -> pa.Table:
    """The rows of a spool that count, in the order they were written.

    Rows that were retracted (of a pair whose other half was shed) do not. None at all is an empty
    table, which no gate takes for success.

    Args:
        folder: of the spool.
        stage: only of this stage.
        step: only of this step of a canary.
        manifest_sha256: only of this manifest.
        settled: leave out what requests in flight may still change. False is for counting.
        memory: what was read of closed segments before, which is not read again.

    Raises:
        EvidenceError: no spool; a segment is missing, damaged, or not what its digest says; or rows
            that were wanted could not be written at the time.
    """
    found = list(_tables(folder, Selection(stage, step, manifest_sha256, settled), memory))
    return pa.concat_tables(found) if found else RECORD_SCHEMA.empty_table()


def stages_of(folder: Path, manifest_sha256: str | None = None) -> list[str]:
    """The stages that a spool has rows of, sorted.

    Raises:
        EvidenceError: as `read_spool`.
    """
    tables = _tables(folder, Selection(manifest_sha256=manifest_sha256, settled=False))
    return sorted({str(each) for rows in tables for each in pc.unique(rows.column("stage"))})


def spool_errors(folder: Path) -> list[str]:
    """What is wrong with a spool, one message a fault; empty if it can be read as a whole."""
    found = []
    try:
        snapshot = Snapshot(folder)
        found += snapshot.lost(Selection().wants)
        for part in snapshot.parts:
            try:
                for piece in part.pieces():
                    rows_of(piece)
            except EvidenceError as error:
                found.append(str(error))
    except EvidenceError as error:
        found.append(str(error))
    return found


class SpoolSource(ParquetSource):
    """The rows of a spool as a source that is read in batches, as often as needed.

    They are converted once, into a file of parquet that goes when this object does.

    Args:
        folder: of the spool.
        selection: which rows.

    Attributes:
        without_reply: copies for a shadow that were to be made and have no reply, by why. There is
            no row of them, and none of the baseline that they would be compared with.

    Raises:
        EvidenceError: as `read_spool`.
    """

    def __init__(self, folder: Path, selection: Selection | None = None) -> None:
        self._copy = TemporaryDirectory(prefix="specdecode-spool-")
        copy = Path(self._copy.name) / "rows.parquet"
        with pq.ParquetWriter(copy, RECORD_SCHEMA, compression="zstd") as writer:
            wanted = selection or Selection()
            for table in _gathered(_tables(folder, wanted)):
                writer.write_table(table)
        self.without_reply = _without_reply(folder, wanted)
        super().__init__(copy.parent)


def _tables(
    folder: Path, selection: Selection, memory: SegmentCache | None = None
) -> Iterator[pa.Table]:
    snapshot = Snapshot(folder, memory)
    if lost := snapshot.lost(selection.wants):
        raise EvidenceError("; ".join(lost))
    gone = pa.array(sorted(snapshot.exceptions().retracted), pa.string())
    flying = in_flight(snapshot) if selection.settled else None
    if flying is not None and selection.stage in (None, "shadow"):  # where rows come in pairs
        flying = flying.and_late(map(selection.of, _pieces(snapshot, memory)))
    for found in _pieces(snapshot, memory):
        rows = selection.of(found)
        if len(gone):
            rows = rows.filter(pc.invert(pc.is_in(rows.column("request_id"), gone)))
        if flying is not None:
            rows = flying.settled(rows)
        if rows.num_rows:
            yield rows


def _without_reply(folder: Path, wanted: Selection) -> Mapping[str, int]:
    """Only a shadow has copies. Spools of before these lines named a manifest count as wanted."""
    if wanted.stage not in (None, "shadow"):
        return {}
    own = (None, wanted.manifest_sha256)
    return Counter(
        str(line["why"])
        for line in Snapshot(folder).lines("shed")
        if wanted.manifest_sha256 is None or line.get("manifest_sha256") in own
    )


def _pieces(snapshot: Snapshot, memory: SegmentCache | None) -> Iterator[pa.Table]:
    for part in snapshot.parts:
        known = None if memory is None else memory.known(part)
        yield from map(rows_of, part.pieces()) if known is None else known.tables()


def _gathered(tables: Iterator[pa.Table], least: int = 1 << 16) -> Iterator[pa.Table]:
    """The same rows in fewer tables, for row groups that are worth one."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(each.num_rows for each in held) >= least:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
