"""`specdecode flip`."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated, NoReturn

import typer

from specdecode.cli.console import JsonFlag
from specdecode.errors import MissingPrerequisiteError

_RUNNER = "pipelines.flip"


def flip_command(
    *,
    profile: Annotated[
        str, typer.Option(help="Size of the runs: full, smoke, or another of params.yaml.")
    ] = "full",
    only: Annotated[
        list[str] | None, typer.Option("--only", help="This flip alone; repeatable.")
    ] = None,
    list_flips: Annotated[
        bool, typer.Option("--list", help="Say which flips there are, and run none.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Repeat the evaluation with one assumption changed at a time; where does the verdict turn?

    Each flip is a whole evaluation in a scratch copy under .workspaces/flips. What is done is not
    repeated, and after Ctrl-C the same command goes on. Writes reports/flips.json and flips.md
    (for profiles other than full, under .workspaces).

    Exit codes: 0 every flip has a verdict or a stated reason to have none, 1 one did not finish,
    2 wrong usage, 130 interrupted.

    Example: specdecode flip --profile smoke --only useless-draft
    """
    if importlib.util.find_spec("pipelines") is None:
        raise MissingPrerequisiteError(
            "flips are evaluations, and those run in a clone of the repository; clone it, run "
            "`make install`, and call .venv/bin/specdecode there"
        )
    arguments = ["--profile", profile]
    for name in only or ():
        arguments += ["--only", name]
    arguments += ["--list"] if list_flips else []
    arguments += ["--json"] if as_json else []
    _become([sys.executable, "-m", _RUNNER, *arguments])


def _become(command: list[str]) -> NoReturn:
    """Go on as another program: signals and exit status are then its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)  # noqa: S606 - a list of arguments, no shell
