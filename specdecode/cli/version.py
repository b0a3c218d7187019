"""`specdecode version`."""

from __future__ import annotations

import platform

from specdecode import __version__
from specdecode.cli.console import JsonFlag, emit_json, stdout


def version_command(as_json: JsonFlag = False) -> None:
    """Print the version of specdecode and of Python.

    Example: specdecode version
    """
    document = {"specdecode": __version__, "python": platform.python_version()}
    if as_json:
        emit_json(document)
        return
    stdout().print(f"specdecode {document['specdecode']} (Python {document['python']})")
