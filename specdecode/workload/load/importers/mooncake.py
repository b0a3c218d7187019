"""Mooncake traces: JSONL with timestamp (ms), input_length, output_length, hash_ids.

`hash_ids` name the blocks of 512 tokens a prompt consists of; equal ids are equal blocks.
A line may carry the exact text as `text_input`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specdecode.errors import PromptFileError
from specdecode.workload.load.importers.base import Entry, Skipped, count_from, seconds_from
from specdecode.workload.load.importers.json_stream import json_lines
from specdecode.workload.load.prompts import WrittenPrompt

BLOCK_TOKENS: Final = 512


def read_mooncake(path: Path, skipped: Skipped) -> Iterator[Entry]:
    """Entries with times, lengths and blocks.

    Raises:
        PromptFileError: names line and field.
    """
    for line, row in json_lines(path):
        for field in ("timestamp", "input_length", "output_length"):
            if field not in row:
                raise PromptFileError(path, line, field, "is required but missing")
        asked = count_from(row["input_length"], path, line, "input_length")
        answered = count_from(row["output_length"], path, line, "output_length")
        if asked == 0 or answered == 0:
            skipped["no tokens asked or none generated"] += 1
            continue
        text = row.get("text_input")
        if text is not None and (not isinstance(text, str) or not text):
            raise PromptFileError(path, line, "text_input", "must be text")
        yield Entry(
            name=f"mooncake-{line}",
            timestamp_s=seconds_from(row["timestamp"], path, line, "timestamp", scale=1e-3),
            input_tokens=asked,
            output_tokens=answered,
            prompt=None if text is None else WrittenPrompt(text),
            blocks=_blocks(row.get("hash_ids"), path, line),
            block_tokens=BLOCK_TOKENS,
        )


def _blocks(value: object, path: Path, line: int) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise PromptFileError(path, line, "hash_ids", "must be a list of whole numbers")
    return tuple(value)
