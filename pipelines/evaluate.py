"""Runs one evaluation: refreshes the workspace of a profile, runs `dvc repro`, shows the verdict.

    python -m pipelines.evaluate --profile smoke

Exit status: 0 when the pipeline ran to its end, whatever the verdict (NO_GO is a result); 1 when
it failed; 2 on wrong usage; 130 when it was interrupted; 143 when SIGTERM ended it, and with it the
stage under way. `specdecode decide` is the command whose exit status carries the verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pipelines import repro, show
from pipelines.console import say
from pipelines.workspace import refresh, workspace_of
from specdecode.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
TERMINATED = 128 + signal.SIGTERM


def evaluate(profile: str, root: Path = ROOT, force: bool = False) -> int:
    """Runs the pipeline under `profile` and prints what came out.

    Args:
        profile: a key of `profiles` in params.yaml. "full" runs in the repository itself, every
            other one in a scratch copy under .workspaces/.
        root: the repository.
        force: measure again although nothing changed.

    Returns:
        An exit status, see the module's text.
    """
    workspace = workspace_of(root, profile)
    with repro.alone_in(workspace):
        refresh(root, profile)
        status = repro.run(workspace, tracked_in=root, options=("--force",) if force else ())
    if status == repro.INTERRUPTED:
        say("\nInterrupted. Rows measured so far are kept; the same command goes on from them.")
        return status
    if status < 0:
        say(f"\nThe evaluation was ended from outside (signal {-status}). There is no verdict.")
        return 1
    if status != 0:
        say("\nThe evaluation did not finish: see the message above. There is no verdict.")
        return 1
    show.print_outcome(workspace)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.evaluate", description=__doc__)
    parser.add_argument("--profile", default="full", help="a key of `profiles` in params.yaml")
    parser.add_argument("--force", action="store_true", help="re-run every stage")
    arguments = parser.parse_args(argv)
    try:
        with ended_by_sigterm():
            return evaluate(arguments.profile, force=arguments.force)
    except UserError as error:
        say(f"error: {error}")
        return 2


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Makes SIGTERM an exception, so that whatever this process started is ended as well."""
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one must not cut the ending short
    say("\nThe evaluation was ended from outside. Rows measured so far are kept.")
    raise SystemExit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main())
