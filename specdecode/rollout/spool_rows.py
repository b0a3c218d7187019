"""The rows among the lines of a spool, as a table."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from specdecode.errors import EvidenceError
from specdecode.measurement.records import RECORD_SCHEMA, Record, checked
from specdecode.rollout.spool_lines import beginnings
from specdecode.rollout.spool_snapshot import Piece

_ROW = beginnings("row")
_SCHEMA = pa.schema([pa.field("record", pa.struct(list(RECORD_SCHEMA)))])


def rows_of(piece: Piece) -> pa.Table:
    """The rows among some lines.

    Raises:
        EvidenceError: a line holds no record; names file and line.
    """
    lines = [line for line in piece.lines if line.startswith(_ROW)]
    if not lines:
        return RECORD_SCHEMA.empty_table()
    data = b"".join(lines)
    try:
        found = pj.read_json(
            io.BytesIO(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data)),
            parse_options=pj.ParseOptions(
                explicit_schema=_SCHEMA, unexpected_field_behavior="ignore"
            ),
        )
        chunks: list[Any] = found.column("record").chunks
        tables = [
            pa.Table.from_batches([pa.RecordBatch.from_struct_array(each)]) for each in chunks
        ]
        return checked(pa.concat_tables(tables), piece.path)
    except (pa.ArrowException, EvidenceError) as error:
        raise EvidenceError(_named(piece) or f"{piece.path}: {error}") from error


def _named(piece: Piece) -> str | None:
    """Which line of a piece is no record, and why."""
    for number, line in enumerate(piece.lines, start=piece.first):
        if not line.startswith(_ROW):
            continue
        where = f"{piece.path}, line {number}"
        try:
            found: Any = json.loads(line)
            Record.from_json_line(json.dumps(found["record"]))
        except (ValueError, KeyError, TypeError, RecursionError, EvidenceError) as error:
            return f"{where}: {error}; restore the segment from a copy"
    return None
