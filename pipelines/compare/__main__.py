"""Compare servers: `make compare`, or `python -m pipelines.compare`. About an hour on two cores."""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines import settings
from pipelines.compare.arms import PLAIN, all_arms
from pipelines.compare.page import write_page
from pipelines.compare.picture import draw
from pipelines.console import say
from pipelines.environment import describe
from pipelines.external.models import DEFAULT_SOURCE, prepare
from specdecode.cli.sweep_options import numbers
from specdecode.durable import written_whole
from specdecode.errors import SpecdecodeError
from specdecode.workload.sweep import SweepProgress, SweepSpec, run_sweep
from specdecode.workload.sweep.cells import Cell, read_cell
from specdecode.workload.sweep.paired import seconds_per_token, throughput

SCHEMA = "specdecode.engines/1"
FOLDER = Path("data/compare")
REPORT = Path("reports/engines.json")
PAGE = Path("docs/engines-compared.md")
PICTURE = Path("docs/images/engines.png")
PROMPTS = Path("eval_sets/prompts")
REFERENCE = PLAIN["specdecode"]
LEVEL = 0.95


def main(argv: list[str] | None = None) -> int:
    """Measure, and write report, page and picture. Goes on where an earlier call stopped.

    Returns:
        0 complete; 1 partial; 2 for what the caller can fix; 130 interrupted.
    """
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__)
    parser.add_argument("--target", default=DEFAULT_SOURCE, help="model source of the target")
    parser.add_argument("--rounds", type=int, default=4, help="how often everything is measured")
    parser.add_argument("--concurrency", default="1,4,16", help="clients")
    parser.add_argument("--max-tokens", type=int, default=64, help="length of every reply")
    parser.add_argument("--seed", type=int, default=0, help="of orders, prompts and replies")
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"rows; default {FOLDER}")
    parser.add_argument("--redraw", action="store_true", help="page and picture from the report")
    options = parser.parse_args(argv)
    settings.work_offline()
    try:
        return _compare(options)
    except SpecdecodeError as error:
        say(f"Error: {error}")
        return 2


def _compare(options: argparse.Namespace) -> int:
    if options.redraw:
        report = json.loads(REPORT.read_text(encoding="utf-8"))
    else:
        report = measure(
            SweepSpec(
                concurrency=numbers("--concurrency", options.concurrency),
                rounds=options.rounds,
                requests_per_client=2,
                least_requests=12,
                prompts=PROMPTS,
                max_tokens=options.max_tokens,
                seed=options.seed,
                max_batch=16,
                level=LEVEL,
            ),
            options.target,
            options.out,
        )
        if report["status"] == "interrupted":
            say(f"Interrupted; the same command goes on with what is in {options.out}.")
            return 130
        with written_whole(REPORT) as file:
            file.write(json.dumps(report, indent=1, ensure_ascii=False).encode() + b"\n")
    write_page(PAGE, report)
    draw(report, PICTURE)
    say(f"Wrote {REPORT}, {PAGE} and {PICTURE}.")
    return 0 if report["status"] == "complete" else 1


def measure(spec: SweepSpec, source: str, folder: Path) -> dict[str, Any]:
    """One sweep over all engines, and each engine's plain decoding beside this project's.

    Args:
        spec: of the sweep.
        source: of the target.
        folder: of the sweep.
    """
    arms = all_arms(prepare(source))
    document = run_sweep(spec, arms, folder, show=_told).document
    cells = [
        read_cell(folder / c["folder"], c["arm"], c["round"], c["concurrency"])
        for c in document["cells"]
    ]
    return {
        "schema": SCHEMA,
        "status": document["status"],
        "ended_at": document["ended_at"],
        "machine": describe(None),
        "target": source,
        "spec": document["manifest"]["spec"],
        "manifest_sha256": document["manifest"]["sha256"],
        "engines": {name: _version(told) for name, told in document["engines"].items()},
        "failures": document["failures"],
        "points": document["points"],
        "plain_over_ours": [
            {"engine": engine, "concurrency": load, **_beside(cells, arm, load)}
            for engine, arm in PLAIN.items()
            if arm != REFERENCE
            for load in spec.concurrency
        ],
        "cells": [{k: v for k, v in c.items() if k != "folder"} for c in document["cells"]],
    }


def _beside(cells: list[Cell], arm: str, load: int) -> dict[str, Any]:
    theirs = [c for c in cells if (c.arm, c.concurrency) == (arm, load)]
    ours = [c for c in cells if (c.arm, c.concurrency) == (REFERENCE, load)]
    return {
        "throughput": throughput(theirs, ours).to_json(LEVEL),
        "tpot": seconds_per_token(theirs, ours).to_json(LEVEL),
    }


def _version(told: dict[str, Any]) -> dict[str, Any]:
    return {name: told.get(name) for name in ("engine", "version")}


@contextlib.contextmanager
def _told(progress: SweepProgress) -> Iterator[None]:
    """A line whenever another cell begins."""
    over = threading.Event()

    def watch() -> None:
        before = None
        while not over.wait(0.5):
            now = (progress.round, progress.arm, progress.concurrency)
            if now != before and progress.concurrency is not None:
                before = now
                say(
                    f"round {progress.round}: {progress.arm}, concurrency {progress.concurrency} "
                    f"({progress.done} of {progress.total} done, {len(progress.failures)} failed)"
                )

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    raise SystemExit(main())
