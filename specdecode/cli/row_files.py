"""Recorded outputs read from a file one at a time, so that its size does not matter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdecode.errors import ConfigError

_AT_A_TIME = 256


def stream_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Recorded outputs of a parquet or JSON lines file, one mapping a row, in file order.

    `sampling` may be an object or a JSON string; it is given as an object.

    Raises:
        ConfigError: the file is missing, has another format or a malformed line; at the line.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; pass recorded rows (.parquet or .jsonl)")
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _jsonl_rows(path)
    for index, row in enumerate(rows):
        if isinstance(row.get("sampling"), str):
            try:
                row["sampling"] = json.loads(row["sampling"])
            except (ValueError, RecursionError) as error:
                raise ConfigError(
                    f"{path}, row {index}, field 'sampling': not valid JSON ({error})"
                ) from error
        yield row


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_AT_A_TIME):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: not a readable parquet file ({error})") from error


def _jsonl_rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _object(line, f"{path}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as UTF-8 text ({error})") from error


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: expected an object")
    return row
