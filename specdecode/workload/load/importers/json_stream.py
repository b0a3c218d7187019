"""JSON read piece by piece: lines of objects, and one array of objects that may be gigabytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from specdecode.errors import PromptFileError
from specdecode.workload.load.importers.base import open_text

_READ = 1 << 20
_BLANK = re.compile(r"\s*")
MAX_ITEM_CHARACTERS = 64 << 20
"""An element larger than this is refused: a file that is no array must not fill the memory."""


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, object) of a JSONL file; blank lines are skipped.

    Raises:
        PromptFileError: the file cannot be read, or a line is no JSON object.
    """
    number = 0
    with open_text(path) as file:
        try:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, _object(json.loads(text), path, number)
        except UnicodeDecodeError as error:
            raise PromptFileError(path, number + 1, None, "is not UTF-8") from error
        except (json.JSONDecodeError, RecursionError) as error:
            raise PromptFileError(path, number, None, f"not valid JSON: {error}") from error


def json_array(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(element number from 1, object) of a file that holds one array of objects.

    Raises:
        PromptFileError: the file is no such array, or ends in the middle of it.
    """
    with open_text(path) as file:
        try:
            for number, value in enumerate(_elements(file, path), start=1):
                yield number, _object(value, path, None, f"element {number}")
        except UnicodeDecodeError as error:
            raise PromptFileError(path, None, None, "is not UTF-8") from error


def _elements(file: TextIO, path: Path) -> Iterator[Any]:
    """Elements of the array, each decoded as soon as it is whole."""
    decoder = json.JSONDecoder()
    held, at, number, ended = "", 0, 0, False
    opened = False
    while True:
        at = _after_blanks(held, at)
        if not opened and at < len(held):
            if held[at] != "[":
                raise PromptFileError(path, 1, None, "must hold one JSON array of conversations")
            at, opened = _after_blanks(held, at + 1), True
        if opened and held[at : at + 1] == "]" and number == 0:
            return
        if opened and at < len(held):
            problem = "it is cut off"
            try:
                value, end = decoder.raw_decode(held, at)
                end = _after_blanks(held, end)
            except (json.JSONDecodeError, RecursionError) as error:
                end, problem = len(held), str(error)
            if held[end : end + 1] in (",", "]") and end < len(held):
                yield value
                if held[end] == "]":
                    return
                number, at = number + 1, end + 1
                continue
            if ended or len(held) - at > MAX_ITEM_CHARACTERS or end < len(held):
                raise PromptFileError(
                    path, None, None, f"element {number + 1} of the array: {problem}"
                )
        elif ended:
            raise PromptFileError(
                path, None, None, f"ends after {number} elements without closing the array"
            )
        # As much again as is held: an element is scanned anew only when it may have doubled.
        some = file.read(max(_READ, len(held) - at))
        held, at, ended = held[at:] + some, 0, not some


def _after_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _object(value: Any, path: Path, line: int | None, what: str | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = f"expected a JSON object, found {type(value).__name__}"
        raise PromptFileError(path, line, None, f"{what}: {problem}" if what else problem)
    return value
