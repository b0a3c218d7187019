"""Rows as callers hold them, made into what is decided on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from specdecode.errors import ConfigError
from specdecode.measurement.records import RECORD_SCHEMA
from specdecode.measurement.source import ParquetSource, Source
from specdecode.rollout.spool_lines import is_spool
from specdecode.rollout.spool_reader import SpoolSource

Rows = Any
"""A path, a source, an arrow table, a pandas DataFrame, or a sequence of mappings."""

_KINDS = (
    "a pathlib.Path to parquet or to a router's spool, a source, an arrow table, a pandas "
    "DataFrame or a list of mappings"
)


def as_rows(rows: Rows) -> pa.Table | Source:
    """The rows as an arrow table or open files, whose columns are yet to be checked.

    Raises:
        ConfigError: rows are of another kind, or their values do not fit into columns.
        EvidenceError: a path leads to no file, to one that is not parquet, or to a spool that is
            damaged.
    """
    if isinstance(rows, Path):
        return SpoolSource(rows) if is_spool(rows) else ParquetSource(rows)
    if isinstance(rows, pa.Table | Source):
        return rows
    try:
        if _is_frame(rows):
            return _of_frame(rows)
        if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
            return _of_mappings(rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"rows: cannot be made into a table: {error}") from error
    raise ConfigError(f"rows: expected {_KINDS}, not {type(rows).__name__}")


def _is_frame(rows: object) -> bool:
    # Told by name: a caller without pandas must not need it.
    kind = type(rows)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def _of_frame(frame: Any) -> pa.Table:
    if "sampling" in frame.columns:
        frame = frame.assign(sampling=[_text(value) for value in frame["sampling"]])
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _of_mappings(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    if not rows:  # none measured yet is another thing than rows without columns
        return RECORD_SCHEMA.empty_table()
    # All names of all rows: arrow would take the first row's and drop the rest unseen.
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    if "sampling" in columns:
        columns["sampling"] = [_text(value) for value in columns["sampling"]]
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _text(sampling: object) -> object:
    """Parameters as the JSON text of a record; as one column they would all get every key."""
    if not isinstance(sampling, Mapping):
        return sampling
    return json.dumps(dict(sampling), sort_keys=True, ensure_ascii=False)
