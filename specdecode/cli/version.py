"""`specdecode version`."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from specdecode import __version__
from specdecode.cli.console import JsonFlag, emit_json, stdout


def _show_and_leave(wanted: bool) -> None:
    if wanted:
        version_command()
        raise typer.Exit


VersionFlag = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_and_leave, is_eager=True, help="Show the version and exit."
    ),
]


def version_command(as_json: JsonFlag = False) -> None:
    """Print the version of specdecode and of Python.

    Example: specdecode version
    """
    document = {"specdecode": __version__, "python": platform.python_version()}
    if as_json:
        emit_json(document)
        return
    stdout().print(f"specdecode {document['specdecode']} (Python {document['python']})")
