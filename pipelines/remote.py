"""Sends results to the DVC remote and fetches them.

    python -m pipelines.remote push
    SPECDECODE_DVC_REMOTE=s3://bucket/specdecode python -m pipelines.remote pull

Out of the box the remote is a folder in the user's home, so every clone of the same user shares it
and plain `dvc push` and `dvc pull` work. DVC reads no variable for it, so SPECDECODE_DVC_REMOTE is
written to .dvc/config.local, which Git ignores; without the variable that setting is taken back.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pipelines import repro
from pipelines.console import say

VARIABLE = "SPECDECODE_DVC_REMOTE"
NAME = "environment"


def point_at(url: str | None, root: Path) -> None:
    """Makes `url` the default remote of this clone, or the project's own one when it is null."""
    if url:
        _dvc(root, "remote", "add", "--quiet", "--local", "--force", "--default", NAME, url)
    elif f'remote "{NAME}"' in _local_settings(root):
        _dvc(root, "remote", "remove", "--quiet", "--local", NAME)


def address(root: Path) -> str | None:
    """Returns where results of this clone go to by default; null when no remote is configured.

    It is for people to read and for records: a password in it is left out.
    """
    name = _setting(root, "core.remote")
    url = _setting(root, f"remote.{name}.url") if name else None
    return None if url is None else without_password(url)


def without_password(url: str) -> str:
    """Returns an address as it may be shown: scheme://user:secret@host becomes scheme://user@host."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}"))


def push(root: Path, stages: Sequence[str], on_line: Callable[[str], None]) -> int:
    """Sends what the stages made to the default remote and returns DVC's exit status.

    Args:
        root: a clone, or a scratch copy of one.
        stages: names of stages; empty for all.
        on_line: takes each line of DVC's messages.
    """
    return repro.call([*repro.dvc(), "push", *stages], root, on_line)


def main(argv: list[str] | None = None) -> int:
    """Parses the command line and returns DVC's exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.remote", description=__doc__)
    parser.add_argument("direction", choices=("push", "pull"))
    arguments = parser.parse_args(argv)
    root = Path.cwd()
    with repro.alone_in(root):
        point_at(os.environ.get(VARIABLE), root)
        status = _dvc(root, arguments.direction, check=False)
    if status != 0 and arguments.direction == "pull":
        say(
            "Not everything was there. `make evaluate` makes what is missing; on the machine that "
            "has the results, run `make push`."
        )
    return status


def _dvc(root: Path, *arguments: str, check: bool = True) -> int:
    return subprocess.run([*repro.dvc(), *arguments], cwd=root, check=check).returncode


def _setting(root: Path, name: str) -> str | None:
    """One setting as DVC itself reads it, from all its files; null when it is not set."""
    done = subprocess.run(
        [*repro.dvc(), "config", name], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None if done.returncode == 0 else None


def _local_settings(root: Path) -> str:
    try:
        return (root / ".dvc" / "config.local").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
