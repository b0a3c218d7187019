"""Entry point: turns deliberate errors into one plain message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from specdecode.cli.app import app
from specdecode.cli.console import emit_json
from specdecode.cli.exit_codes import ENGINE_FAILED, INTERRUPTED, INVALID, TAMPERED, USAGE
from specdecode.cli.streams import OutputError, prepare
from specdecode.errors import EvidenceError, SpecdecodeError, TamperedError, UserError


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
    try:
        app(args=list(arguments), prog_name="specdecode")
    except SpecdecodeError as error:
        _report(error, as_json="--json" in arguments)
        return _exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:
        return ended.code
    return 0


def _exit_code(error: SpecdecodeError) -> int:
    if isinstance(error, UserError):
        return USAGE
    if isinstance(error, TamperedError):
        return TAMPERED
    return INVALID if isinstance(error, EvidenceError) else ENGINE_FAILED


def _report(error: SpecdecodeError, *, as_json: bool) -> None:
    # Written without rich: a message may hold square brackets, and must stay one greppable line.
    sys.stderr.write(f"Error: {error}\n")
    if as_json:
        emit_json({"error": {"type": type(error).__name__, "message": str(error)}})
