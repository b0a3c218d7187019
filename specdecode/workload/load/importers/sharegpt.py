"""ShareGPT files: one JSON array of conversations, each a list of {from, value} turns.

The first human turn, with the system turn before it if there is one, is the prompt. Later turns
answer replies that were given then, so they are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdecode.errors import PromptFileError
from specdecode.workload.load.importers.base import Entry, Skipped
from specdecode.workload.load.importers.json_stream import json_array
from specdecode.workload.load.prompts import WrittenPrompt

_HUMAN = ("human", "user")


def read_sharegpt(path: Path, skipped: Skipped) -> Iterator[Entry]:
    """Entries with prompts; no times, no lengths.

    Raises:
        PromptFileError: the file is no array, or an element has no conversation.
    """
    for number, row in json_array(path):
        turns = row.get("conversations", row.get("conversation"))
        if not isinstance(turns, list):
            problem = f"element {number} has no list 'conversations'"
            raise PromptFileError(path, None, "conversations", problem)
        texts = [_turn(turn, path, number) for turn in turns]
        system = texts[0][1] if texts and texts[0][0] == "system" else None
        rest = texts[1:] if system is not None else texts
        if not rest or rest[0][0] not in _HUMAN or not rest[0][1].strip():
            skipped["conversation does not begin with a human turn"] += 1
            continue
        if sum(role in _HUMAN for role, _ in rest) > 1:
            skipped["(kept, but only its first turn) conversation with several turns"] += 1
        name = row.get("id")
        yield Entry(
            name=f"sharegpt-{name if isinstance(name, str) and name else number}",
            prompt=WrittenPrompt(rest[0][1], system or None),
        )


def _turn(turn: Any, path: Path, number: int) -> tuple[str, str]:
    if isinstance(turn, dict):
        role, text = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
        if isinstance(role, str) and isinstance(text, str):
            return role, text
    problem = f"element {number} has a turn without the texts 'from' and 'value'"
    raise PromptFileError(path, None, "conversations", problem)
