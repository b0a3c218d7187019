"""Where output goes: results on stdout, everything else on stderr, decoration on terminals only."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on stdout; messages go to stderr."),
]

STATUS_STYLE = {
    "GO": "bold green",
    "NO_GO": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "INVALID": "bold magenta",
    "OVERRIDDEN": "bold magenta",
    "lossless": "bold green",
    "biased": "bold red",
    "undecided": "bold yellow",
}


_PIPE_WIDTH = 240
"""Columns of a table in a pipe: wide enough that programs and logs get unbroken lines."""


def stdout() -> Console:
    """Console for results; a fresh one, so that it follows redirections of the stream."""
    return _console(sys.stdout)


def stderr() -> Console:
    """Console for progress and remarks."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    if stream.isatty():
        return Console(file=stream, highlight=False)
    # Not even where FORCE_COLOR is set, as on build servers: it would draw progress bars there too.
    return Console(
        file=stream, highlight=False, force_terminal=False, soft_wrap=True, width=_PIPE_WIDTH
    )


def emit_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document to stdout. NaN and infinity are refused: missing is null.

    Args:
        document: JSON-safe mapping.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def number(value: float | None, digits: int = 3, unit: str = "") -> str:
    """Format for people. None reads "not measured", so that it cannot pass for zero."""
    if value is None:
        return "not measured"
    return f"{value:.{digits}f}{unit}"
