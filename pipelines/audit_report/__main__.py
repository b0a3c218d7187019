"""Does the audit have teeth, and does it bite the innocent? `make audit-report`.

What was computed is kept in data/audit-report, and the same command goes on from there. With --real
the real model's part is computed, too; without it, it is taken over if it is there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines import settings as pipeline_settings
from pipelines.audit_report.settings import DATA, PAGE, REPORTS, Study
from pipelines.console import say
from specdecode.errors import UserError

_USAGE = 2


def main(argv: list[str] | None = None) -> int:
    """Simulate what is missing, and write report, picture and tables."""
    options = _options(argv)
    pipeline_settings.work_offline()
    try:
        _run(options)
    except UserError as error:
        say(f"error: {error}")
        return _USAGE
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    own = Study()
    parser = argparse.ArgumentParser(prog="make audit-report", description=__doc__)
    parser.add_argument("--runs", type=_count, default=own.runs, help=f"a fault ({own.runs})")
    parser.add_argument(
        "--limit", type=_count, default=own.limit, help=f"tokens a run reads ({own.limit})"
    )
    parser.add_argument(
        "--alarm-runs", type=_count, default=own.alarm_runs, help=f"no fault ({own.alarm_runs})"
    )
    parser.add_argument("--seed", type=int, default=own.seed, help="default 0")
    parser.add_argument("--jobs", type=_count, default=2, help="processes (default 2)")
    parser.add_argument("--faults", nargs="+", default=None, help="some of them (default all)")
    parser.add_argument("--real", action="store_true", help="also decode with the real model")
    parser.add_argument("--data", type=Path, default=DATA, help=f"what is kept ({DATA})")
    parser.add_argument("--out", type=Path, default=REPORTS, help=f"default {REPORTS}")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"tables to fill ({PAGE})")
    return parser.parse_args(argv)


def _run(options: argparse.Namespace) -> None:
    from pipelines.audit_report import alarms, detection, distances, page, picture, real, report
    from pipelines.audit_report.models import one_thread, study_models
    from specdecode.audit.faults import FAULTS, find_fault

    study = replace(
        Study(),
        runs=options.runs,
        limit=options.limit,
        alarm_runs=options.alarm_runs,
        seed=options.seed,
    )
    names = [find_fault(name).name for name in options.faults or FAULTS]
    text = options.page.read_text("utf-8")
    data = options.data
    study_models(data / "models")  # before several processes want to make them
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, one_thread) as pool:
        far = [pool.submit(distances.total_variations, g, data) for g in distances.alike(names)]
        needed = {
            name: [
                pool.submit(detection.tokens_needed, name, group, study, data)
                for group in groups(study.runs, detection.GROUP)
            ]
            for name in names
        }
        accused = [
            pool.submit(alarms.false_alarms, number, len(group), study, data)
            for number, group in enumerate(groups(study.alarm_runs, alarms.GROUP))
        ]
        tv = {name: found for part in far for name, found in part.result().items()}
        tokens = {name: _joined(parts, name) for name, parts in needed.items()}
        wrongly = _joined(accused, "no fault")
    found = report.document(study, tv, tokens, wrongly, real.summary(data, compute=options.real))
    options.out.mkdir(parents=True, exist_ok=True)
    written = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (options.out / "faults.json").write_text(written, encoding="utf-8")
    (options.out / "faults.svg").write_text(picture.svg(found), encoding="utf-8")
    options.page.write_text(page.filled(text, found), encoding="utf-8")
    say(summary(found))
    say(f"Wrote {options.out}/faults.json, faults.svg and the tables of {options.page}.")


def groups(runs: int, size: int) -> list[range]:
    """Runs in groups that do not depend on how many there are in all, but for the last."""
    return [range(start, min(start + size, runs)) for start in range(0, runs, size)]


def summary(found: dict[str, Any]) -> str:
    """False alarms, and which faults were missed."""
    alarm, missed = found["false_alarm"], found["missed_above_0.02"]
    small = [
        fault["name"]
        for fault in found["faults"]
        if fault["detected"] < fault["runs"] and fault["name"] not in missed
    ]
    return "\n".join(
        [
            f"false alarms: {alarm['alarms']} of {alarm['runs']} runs "
            f"({alarm['low']:.2%} to {alarm['high']:.2%}); promised: {found['alpha']:.2%}",
            f"missed above a total variation of 0.02: {', '.join(missed) or 'none'}",
            f"missed below that: {', '.join(small) or 'none'}",
        ]
    )


def _joined(parts: list[Future[list[int | None]]], name: str) -> list[int | None]:
    found = [tokens for part in parts for tokens in part.result()]
    caught = sum(tokens is not None for tokens in found)
    say(f"{name}: accused in {caught} of {len(found)} runs")
    return found


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
