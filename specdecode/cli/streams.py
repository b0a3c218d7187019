"""Standard streams that survive what a shell does to them.

A reader that stops early (`| head`) has what it wanted, so the command goes on silently to its own
exit code. Any other failure to write, such as a full disk, loses results and is an `OutputError`.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


class OutputError(OSError):
    """Standard output could not be written."""


class _Output(io.FileIO):
    """A descriptor that is written until it first fails, and swallows everything after that."""

    _failed = False

    def write(self, data: object, /) -> int:
        """Bytes taken: all that are offered once the descriptor has failed."""
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if self._failed:
            return size
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            self._failed = True
            return size
        except OSError as error:
            self._failed = True
            raise OutputError(error.errno, error.strerror) from error


def prepare() -> None:
    """Make the process's own streams so, and able to write any text.

    A stream that someone has put in place of stdout is theirs and keeps its failures.
    """
    if sys.stdout is None:  # closed by the caller, who wants none of it
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as we
    elif sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.flush()
        raw = _Output(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=sys.stdout.encoding,
            line_buffering=sys.stdout.line_buffering,
        )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
