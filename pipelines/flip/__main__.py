"""Repeats the evaluation with one assumption changed at a time, and says where the verdict turns.

    python -m pipelines.flip --profile smoke --only useless-draft

Exit status: 0 when every flip has a verdict or was left out for a stated reason; 1 when one did not
finish; 2 on wrong usage; 130 when it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines import repro
from pipelines.console import say
from pipelines.evaluate import ROOT, ended_by_sigterm
from pipelines.flip.catalogue import FLIPS, chosen
from pipelines.flip.run import PAGE, RESULT, InterruptedRunError, reproducing, run_flips
from pipelines.flip.show import print_list, print_table
from pipelines.workspace import workspace_of
from specdecode.errors import UserError

WIDTH_IN_A_PIPE = 160


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Parses the command line and runs the flips."""
    parser = argparse.ArgumentParser(prog="specdecode flip", description=__doc__)
    parser.add_argument("--profile", default="full", help="a key of `profiles` in params.yaml")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="repeatable")
    parser.add_argument("--list", action="store_true", help="say which flips there are")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_IN_A_PIPE, highlight=False)
    if options.list:
        _list(console, as_json=options.json)
        return 0
    try:
        with ended_by_sigterm():
            # With --json standard output is for the document alone.
            evaluate = reproducing(root, say if options.json else None)
            table = run_flips(root, options.profile, chosen(options.only), evaluate)
            home = workspace_of(root, options.profile)
    except InterruptedRunError:
        message = "what is done is kept; the same command goes on from there"
        return _ended("Interrupted", message, repro.INTERRUPTED, as_json=options.json)
    except UserError as error:
        return _ended(type(error).__name__, str(error), 2, as_json=options.json)
    if options.json:
        _emit(table.to_json())
    else:
        print_table(table, console)
        console.print(f"Written: {home / RESULT}, {home / PAGE}", soft_wrap=True)
    failed = [row for row in table.rows if row.note and "did not finish" in row.note]
    return 1 if failed else 0


def _ended(kind: str, message: str, status: int, *, as_json: bool) -> int:
    """With --json there is one document on stdout, whatever comes of it."""
    say(f"Error: {message}" if status == 2 else f"\n{kind}: {message}.")
    if as_json:
        _emit({"error": {"type": kind, "message": message}})
    return status


def _emit(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _list(console: Console, *, as_json: bool) -> None:
    if not as_json:
        print_list(console)
        return
    known = [
        {"name": flip.name, "assumption": flip.assumption, "change": flip.change}
        for flip in FLIPS.values()
    ]
    _emit({"flips": known})


if __name__ == "__main__":
    sys.exit(main())
