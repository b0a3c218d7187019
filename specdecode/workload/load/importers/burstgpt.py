"""BurstGPT traces: CSV with Timestamp (seconds), Request tokens, Response tokens and more.

A request that failed has 0 response tokens there; it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specdecode.workload.load.importers.base import (
    Entry,
    Skipped,
    count_from,
    csv_rows,
    seconds_from,
)

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def read_burstgpt(path: Path, skipped: Skipped) -> Iterator[Entry]:
    """Entries with times and lengths; `Log Type` becomes the category.

    Raises:
        PromptFileError: names line and column.
    """
    for line, row in csv_rows(path, COLUMNS):
        asked = count_from(row["Request tokens"], path, line, "Request tokens")
        answered = count_from(row["Response tokens"], path, line, "Response tokens")
        if answered == 0 or asked == 0:
            skipped["failed when the trace was recorded (0 tokens)"] += 1
            continue
        yield Entry(
            name=f"burstgpt-{line}",
            timestamp_s=seconds_from(row["Timestamp"], path, line, "Timestamp"),
            input_tokens=asked,
            output_tokens=answered,
            category=row.get("Log Type", "").strip() or None,
        )
