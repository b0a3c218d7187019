"""Files of rows on the command line: are they there, and one row at a time whatever their size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdecode.errors import ConfigError

_AT_A_TIME = 256
_OF_PROFILES = ".workspaces/*/data/rows.parquet"
"""Where `make evaluate PROFILE=…` keeps rows: after a short run this is all there is."""


def refuse_absent(rows: Path, *, or_folder: bool = False) -> None:
    """Refuse a path at which there is nothing: a mistyped path is no evidence, good or bad.

    Args:
        rows: as it was given.
        or_folder: whether a folder will do as well.

    Raises:
        ConfigError: nothing is there; names the rows that scratch copies of profiles have.
    """
    if rows.is_file() or (or_folder and rows.is_dir()):
        return
    others = ", ".join(map(str, sorted(Path().glob(_OF_PROFILES))))
    raise ConfigError(
        f"{rows}: no such file of rows; `make evaluate` measures them"
        + (f". Rows of another profile are in {others}" if others else "")
    )


def stream_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Recorded outputs of a parquet or JSON lines file, one mapping a row, in file order.

    `sampling` may be an object or a JSON string; it is given as an object.

    Raises:
        ConfigError: the file is missing, has another format or a malformed line; at the line.
    """
    refuse_absent(path)
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
