"""Reading the files a command is given, with messages that name file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from specdecode.errors import ConfigError


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ConfigError: the file is missing, unreadable or holds something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a JSON object, found {type(document).__name__}")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two equal keys a reader would see one, and another reader the other."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key occurs twice")
    return members


def check_head(given: str | None) -> None:
    """Refuse what cannot be a ledger's head: a slip of the hand must not read as a cut ledger.

    Raises:
        ConfigError: it has not the form of a SHA-256.
    """
    if given is not None and not re.fullmatch("[0-9a-f]{64}", given):
        raise ConfigError(f"--head {given}: a head is 64 hexadecimal digits, as commands print it")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read recorded outputs, one mapping a row, from parquet or JSON lines.

    `sampling` may be an object or a JSON string; it is returned as an object.

    Raises:
        ConfigError: the file is missing, has another format or a malformed line.
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
    return rows


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: not a readable parquet file ({error})") from error
    return rows


def _jsonl_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as UTF-8 text ({error})") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}, line {number}: not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{path}, line {number}: expected an object")
        rows.append(row)
    return rows
