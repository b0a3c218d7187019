"""Files that say what to send and when: one reader a format, chosen by name or by looking.

azure.py       Azure LLM inference traces
burstgpt.py    BurstGPT
mooncake.py    Mooncake
sharegpt.py    ShareGPT
spec_bench.py  Spec-Bench, and this project's prompt sets
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specdecode.errors import ConfigError, PromptFileError
from specdecode.workload.load.importers.azure import COLUMNS as AZURE
from specdecode.workload.load.importers.azure import read_azure
from specdecode.workload.load.importers.base import Entry, Reader, Skipped, open_text
from specdecode.workload.load.importers.burstgpt import COLUMNS as BURSTGPT
from specdecode.workload.load.importers.burstgpt import read_burstgpt
from specdecode.workload.load.importers.mooncake import read_mooncake
from specdecode.workload.load.importers.sharegpt import read_sharegpt
from specdecode.workload.load.importers.spec_bench import read_spec_bench

READERS: Final[dict[str, Reader]] = {
    "azure": read_azure,
    "burstgpt": read_burstgpt,
    "mooncake": read_mooncake,
    "sharegpt": read_sharegpt,
    "spec-bench": read_spec_bench,
}
AUTO: Final = "auto"

__all__ = ["AUTO", "READERS", "Entry", "Skipped", "guess_format", "read_entries"]

_LOOK: Final = 1 << 16


def read_entries(path: Path, kind: str, skipped: Skipped) -> Iterator[Entry]:
    """The entries of a file.

    Args:
        path: of the file.
        kind: name of a reader, or "auto".
        skipped: gets the reasons for what was left out.

    Raises:
        ConfigError: there is no such reader.
        PromptFileError: the file is malformed, or has no entry.
    """
    name = guess_format(path) if kind == AUTO else kind
    if name not in READERS:
        raise ConfigError(f"there is no format {name!r}; choose one of {', '.join(READERS)}")
    empty = True
    for entry in READERS[name](path, skipped):
        empty = False
        yield entry
    if empty:
        left = "; ".join(f"{count} left out: {why}" for why, count in skipped.items())
        raise PromptFileError(path, None, None, f"holds no request ({left or 'it is empty'})")


def guess_format(path: Path) -> str:
    """Name of the reader for a file, from how it begins.

    Raises:
        PromptFileError: it begins like none of them.
    """
    if path.is_dir():
        return "spec-bench"
    with open_text(path) as file:
        try:
            start = file.read(_LOOK).lstrip("\ufeff \t\r\n")
        except UnicodeDecodeError as error:
            raise PromptFileError(path, None, None, "is not UTF-8 text") from error
    if start.startswith("["):
        return "sharegpt"
    first = start.split("\n", 1)[0]
    cells = {cell.strip() for cell in first.split(",")}
    if set(AZURE) <= cells:
        return "azure"
    if set(BURSTGPT) <= cells:
        return "burstgpt"
    try:
        fields = json.loads(first)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        if "input_length" in fields:
            return "mooncake"
        if "turns" in fields:
            return "spec-bench"
    raise PromptFileError(
        path, 1, None, f"is of no known format; name it, one of {', '.join(READERS)}"
    )
