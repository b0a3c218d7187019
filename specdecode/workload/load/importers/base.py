"""What a trace or prompt file tells about one request, and reading numbers with good errors."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from specdecode.errors import PromptFileError
from specdecode.workload.load.prompts import WrittenPrompt

Skipped = Counter[str]
"""Why lines were left out, and how many for each reason."""

Reader = Callable[[Path, Skipped], "Iterator[Entry]"]
"""Yields the entries of a file one by one, without holding the file in memory."""


@dataclass(frozen=True)
class Entry:
    """One request of a file. None where the file does not tell.

    Args:
        name: of the entry in its file.
        timestamp_s: when it came; only differences count.
        input_tokens: length of its prompt.
        output_tokens: length of its reply.
        prompt: what it said.
        blocks: hashes of the blocks its prompt consists of.
        block_tokens: length of a block.
    """

    name: str
    timestamp_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt: WrittenPrompt | None = None
    blocks: tuple[int, ...] = ()
    block_tokens: int = 512
    category: str | None = None
    language: str | None = None
    difficulty: str | None = None


def count_from(value: object, path: Path, line: int, field: str) -> int:
    """A number of tokens.

    Raises:
        PromptFileError: it is not a whole number of 0 or more.
    """
    try:
        number = float(str(value)) if not isinstance(value, bool) else float("nan")
    except ValueError:
        number = float("nan")
    if not (0 <= number < 2**31 and number == int(number)):
        raise PromptFileError(path, line, field, f"must be a whole number of tokens, not {value!r}")
    return int(number)


def seconds_from(value: object, path: Path, line: int, field: str, scale: float = 1.0) -> float:
    """A time as seconds.

    Raises:
        PromptFileError: it is not a number of 0 or more.
    """
    try:
        number = float(str(value)) if not isinstance(value, bool) else float("nan")
    except ValueError:
        number = float("nan")
    if not 0 <= number < 1e15:
        raise PromptFileError(path, line, field, f"must be a number of 0 or more, not {value!r}")
    return number * scale


def csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line, row) of a CSV file with a header.

    Raises:
        PromptFileError: no such file, no header with these columns, or a row of another length.
    """
    with open_text(path) as file:
        reader = csv.DictReader(file, restkey="")
        try:
            found = [name.strip().lstrip("\ufeff") for name in reader.fieldnames or ()]
            reader.fieldnames = found
            if missing := [name for name in columns if name not in found]:
                raise PromptFileError(
                    path, 1, missing[0], f"is not a column; found {', '.join(found) or 'nothing'}"
                )
            for row in reader:
                if "" in row or None in row.values():
                    raise PromptFileError(
                        path, reader.line_num, None, f"does not have {len(found)} cells"
                    )
                yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise PromptFileError(
                path, reader.line_num + 1, None, f"cannot be read as CSV ({error})"
            ) from error


def open_text(path: Path) -> TextIO:
    """The file as UTF-8 text.

    Raises:
        PromptFileError: it cannot be opened.
    """
    try:
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise PromptFileError(path, None, None, f"cannot be read: {error.strerror}") from error
