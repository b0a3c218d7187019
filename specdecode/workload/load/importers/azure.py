"""Azure LLM inference traces: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

The traces of 2023 write times as `2023-11-16 18:15:46.6805900`, those of 2024 with an offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from specdecode.errors import PromptFileError
from specdecode.workload.load.importers.base import Entry, Skipped, count_from, csv_rows

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read_azure(path: Path, skipped: Skipped) -> Iterator[Entry]:
    """Entries with times and lengths.

    Raises:
        PromptFileError: names line and column.
    """
    for line, row in csv_rows(path, COLUMNS):
        context = count_from(row["ContextTokens"], path, line, "ContextTokens")
        generated = count_from(row["GeneratedTokens"], path, line, "GeneratedTokens")
        if context == 0 or generated == 0:
            skipped["no tokens asked or none generated"] += 1
            continue
        yield Entry(
            name=f"azure-{line}",
            timestamp_s=_time(row["TIMESTAMP"], path, line),
            input_tokens=context,
            output_tokens=generated,
        )


def _time(text: str, path: Path, line: int) -> float:
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise PromptFileError(path, line, "TIMESTAMP", f"is not a time: {text!r}") from error
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
