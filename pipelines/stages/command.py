"""How every stage starts and ends: its parameters, its files, and what a failure looks like.

A stage is a function without arguments. What a person can fix is told in one message without a
stack trace; anything else is a fault of the program and keeps its trace.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pipelines.console import say
from pipelines.parameters import load_parameters
from specdecode.durable import written_whole
from specdecode.errors import SpecdecodeError, UserError

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def run(stage: Callable[[], None]) -> NoReturn:
    """Runs a stage and ends the process.

    Exit status: 0 done, 2 the user can fix it, 1 any other failure, 130 interrupted.
    """
    raise SystemExit(_status(stage))


def _status(stage: Callable[[], None]) -> int:
    try:
        stage()
    except UserError as error:
        say(f"error: {error}")
        return USAGE
    except SpecdecodeError as error:
        say(f"error ({type(error).__name__}): {error}")
        return FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" while writing {error.filename}" if error.filename else ""
        say(
            f"error: the disk is full{where}. Rows measured so far are kept in .specdecode/spool; "
            "free some space and start the same command again, it goes on from them."
        )
        return FAILED
    return 0


def parameters(path: Path | str = "params.yaml") -> dict[str, Any]:
    """Reads the parameters of this workspace; all of them are checked, whichever the stage needs.

    Raises:
        ConfigError: see `pipelines.parameters.load_parameters`.
    """
    return load_parameters(Path(path))


def read_json(path: Path | str) -> dict[str, Any]:
    """Reads what an earlier stage wrote."""
    loaded: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return loaded


def write_json(path: Path | str, content: object) -> None:
    """Writes sorted, indented JSON in one step: readers see the old file or the whole new one.

    Raises:
        ValueError: a number in it is NaN or infinite, which JSON does not know.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with written_whole(path) as file:
        file.write(f"{text}\n".encode())
