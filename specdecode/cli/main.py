"""Entry point: turns deliberate errors into one plain message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import NoReturn

import typer

from specdecode.cli.app import app
from specdecode.cli.console import emit_json
from specdecode.cli.exit_codes import ENGINE_FAILED, INTERRUPTED, INVALID, TAMPERED, USAGE
from specdecode.cli.streams import OutputError, prepare
from specdecode.errors import EvidenceError, SpecdecodeError, TamperedError, UserError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code.

    Args:
        argv: arguments without the program name; None takes them from the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    prepare()
    try:
        code = _run(arguments)
        sys.stdout.flush()  # at exit a failure could no longer be told
    except OutputError as error:
        sys.stderr.write(f"Error: standard output cannot be written ({error.strerror})\n")
        code = ENGINE_FAILED
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int | str | None:
    """One command; with --json there is one document on stdout, whatever comes of it."""
    as_json = "--json" in takewhile(lambda argument: argument != "--", arguments)
    try:
        code = app(args=list(arguments), prog_name="specdecode", standalone_mode=not as_json)
    except SpecdecodeError as error:
        _tell(type(error).__name__, str(error), as_json=as_json)
        return _exit_code(error)
    except typer.Abort:  # a question on the terminal was not answered
        _tell("Interrupted", "stopped before there was a result", as_json=as_json)
        return ENGINE_FAILED
    except OutputError:
        raise
    except OSError as error:
        if error.filename is None and error.errno not in _NO_ROOM:
            raise
        _tell("OSError", _place(error), as_json=as_json)
        return ENGINE_FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as ended:
        return ended.code
    except Exception as error:
        if not hasattr(error, "format_message"):  # what typer finds wrong with the arguments has it
            raise
        _tell("UsageError", error.format_message(), as_json=as_json)
        return USAGE
    if as_json and code == INTERRUPTED:
        _tell("Interrupted", "stopped before there was a result", as_json=as_json)
    return code or 0


def _place(error: OSError) -> str:
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror or error}; what was not reported as done was not done"


def _exit_code(error: SpecdecodeError) -> int:
    if isinstance(error, UserError):
        return USAGE
    if isinstance(error, TamperedError):
        return TAMPERED
    return INVALID if isinstance(error, EvidenceError) else ENGINE_FAILED


def _tell(kind: str, message: str, *, as_json: bool) -> None:
    # Written without rich: a message may hold square brackets, and must stay one greppable line.
    sys.stderr.write(f"Error: {message}\n")
    if as_json:
        emit_json({"error": {"type": kind, "message": message}})
