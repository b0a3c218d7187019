"""Files a command is asked to write: whole or not at all, and refused before the work is done."""

from __future__ import annotations

import tempfile
from pathlib import Path

from specdecode.durable import written_whole
from specdecode.errors import ConfigError


def refuse_unwritable(*paths: Path) -> None:
    """Refuse files that cannot be written, while nothing has been done or put on record yet.

    Raises:
        ConfigError: the folder is not there or takes no file, or the path is itself a folder.
    """
    for path in paths:
        if path.is_dir():
            raise ConfigError(f"{path}: cannot be written (it is a folder); name a file in it")
        if _special(path):
            continue
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise _unwritable(path, error) from error


def write_output(path: Path, content: bytes) -> None:
    """Write a file; one that is there already is replaced in one step.

    Raises:
        ConfigError: it cannot be written; what was there is as it was.
    """
    try:
        if _special(path):
            path.write_bytes(content)
            return
        with written_whole(path) as file:
            file.write(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _special(path: Path) -> bool:
    """A pipe or a device, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path}: cannot be written ({error.strerror or error}); make its folder, or room in it, "
        "or name another place"
    )
