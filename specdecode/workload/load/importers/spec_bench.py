"""Prompts in Spec-Bench's JSONL fields, as this project's own prompt sets have them.

Only the first turn of a conversation is sent: a later one answers a reply that the load client
would have to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specdecode.workload.load.importers.base import Entry, Skipped
from specdecode.workload.load.prompts import WrittenPrompt
from specdecode.workload.prompts import load_prompts


def read_spec_bench(path: Path, skipped: Skipped) -> Iterator[Entry]:
    """Entries with prompts; `path` may be a folder. Read as a whole: ids must be unique.

    Raises:
        PromptFileError: names line and field.
    """
    del skipped
    for prompt in load_prompts(path, first_turn_only=True):
        yield Entry(
            name=prompt.prompt_id,
            prompt=WrittenPrompt(prompt.turns[0], prompt.system),
            category=prompt.category,
            language=prompt.language,
            difficulty=prompt.difficulty,
        )
