"""Secrets that `specdecode route` is told where to find, and never on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from specdecode.errors import ConfigError

_LONGEST: Final = 4096


def token_from(path: Path | None) -> str | None:
    """The token in a file, the white space around it left out; None without a file.

    Raises:
        ConfigError: the file cannot be read, or there is no token in it.
    """
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1)
    except OSError as error:
        raise ConfigError(
            f"--token-file {path} cannot be read ({error.strerror}): make one, for example with "
            "openssl rand -hex 32"
        ) from error
    try:
        token = text.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"--token-file {path}: a token is ASCII") from error
    if not token or len(text) > _LONGEST:
        raise ConfigError(f"--token-file {path}: give one token of at most {_LONGEST} characters")
    return token


def key_from(variable: str | None) -> str | None:
    """The key in an environment variable; None without one.

    Raises:
        ConfigError: the variable is not set.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"the environment variable {variable} is not set: put the key into it")
    return key
