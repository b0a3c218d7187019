"""Asking git, without ever changing what it keeps except by `tag`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from specdecode.errors import ConfigError, MissingPrerequisiteError


def git(root: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    """Standard output of `git -C root …`.

    Raises:
        MissingPrerequisiteError: git is not installed.
        ConfigError: git refused; the message is git's own.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], input=stdin, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise MissingPrerequisiteError("git is needed for this; install it") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise ConfigError(f"git {arguments[0]} in {root}: {said}")
    return done.stdout
