"""Runs a command of this project that answers with one JSON document."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 30
"""For a command that was told to end: it may have a row to put on disk."""


def run_json(
    arguments: Sequence[str], cwd: Path, on_line: Callable[[str], None]
) -> tuple[int, dict[str, Any]]:
    """Runs `python -m specdecode … --json` in a process of its own.

    A process, because what a command loads into memory is gone when it ends, and because its exit
    status is its contract. When this call is interrupted, the command is ended too.

    Args:
        arguments: of the command, without --json.
        cwd: where it runs.
        on_line: takes each line of its messages.

    Returns:
        Its exit status, and the document it printed.

    Raises:
        RuntimeError: it printed no document; names the status.
    """
    command = [sys.executable, "-m", "specdecode", *arguments, "--json"]
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            if child.stderr is not None:
                with child.stderr as lines:
                    for line in lines:
                        on_line(line.rstrip())
            status = child.wait()
        except BaseException:
            _end(child)
            raise
        out.seek(0)
        printed = out.read()
    try:
        return status, dict(json.loads(printed))
    except (ValueError, TypeError) as error:
        raise RuntimeError(
            f"`specdecode {arguments[0]}` ended with status {status} and without a document; its "
            "messages are in the log above"
        ) from error


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
