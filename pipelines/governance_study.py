"""Simulate how often a plan errs: `python -m pipelines.governance_study`, or `make study`."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import specdecode
from pipelines.console import say
from pipelines.study_page import filled
from specdecode.governance.plan import load_plan
from specdecode.governance.plan_schema import Plan
from specdecode.governance.power_picture import svg
from specdecode.governance.study import Outcomes, run_scenario
from specdecode.governance.study_report import report, simulation
from specdecode.governance.study_scenarios import Scenario, scenarios

PLAN = Path("plans/default.yaml")
REPORT = Path("reports/governance/study.json")
PICTURE = Path("reports/governance/study.svg")
PAGE = Path("docs/study.md")
CHUNK = 125
FOLDER = Path(str(specdecode.__file__)).parent
CODE = (
    "governance/power_rows.py",
    "governance/rules/base.py",
    "governance/study.py",
    "governance/study_draws.py",
    "governance/study_judge.py",
    "governance/study_scenarios.py",
    "statistics/betting_interval.py",
    "statistics/clusters.py",
    "statistics/jackknife.py",
    "statistics/plug_in.py",
    "statistics/root.py",
)
"""Files in `FOLDER` that simulate and judge."""


def main() -> int:
    """Simulate every scenario and write the report, its picture and the tables of its page."""
    parser = argparse.ArgumentParser(prog="make study", description=__doc__)
    parser.add_argument("--plan", type=Path, default=PLAN, help=f"default {PLAN}")
    parser.add_argument("--runs", type=int, default=2000, help="of each error rate (default 2000)")
    parser.add_argument("--power-runs", type=int, default=500, help="of each real effect (500)")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--report", type=Path, default=REPORT, help=f"default {REPORT}")
    parser.add_argument("--picture", type=Path, default=PICTURE, help=f"default {PICTURE}")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"tables to fill (default {PAGE})")
    options = parser.parse_args()
    page = options.page.read_text("utf-8")
    plan, code = load_plan(options.plan), code_sha256()
    found = list(_simulated(plan, options))
    document = report(plan, found, options.seed) | {"code_sha256": code}
    drawn = {
        scenario.name: simulation(plan, outcomes, options.seed)
        for scenario, outcomes in found
        if scenario.group != "size"
    }
    for path, text in (
        (options.report, json.dumps(document, indent=1, ensure_ascii=False) + "\n"),
        (options.picture, svg(drawn, plan.power.wanted)),
        (options.page, filled(page, document)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    say(summary(document))
    say(f"Wrote {options.report}, {options.picture} and the tables of {options.page}.")
    say("The sentences of the page are not written anew: read them against its tables.")
    return 0


def code_sha256() -> str:
    """One digest over the files that simulate and judge, each with its name."""
    lines = [f"{hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()}  {name}" for name in CODE]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def summary(document: dict[str, Any]) -> str:
    """The two error rates beside what the plan promises."""
    lines = []
    for what in ("false_go", "false_alarm"):
        part = document[what]
        lines.append(
            f"{what:<12} {part['rate']:.2%} ({part['low']:.2%} to {part['high']:.2%}) "
            f"of {part['runs']} runs; promised: at most {part['alpha']:.2%}"
        )
    return "\n".join(lines)


def _simulated(plan: Plan, options: argparse.Namespace) -> Iterator[tuple[Scenario, Outcomes]]:
    asked = scenarios(plan)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = []
        for scenario in asked:
            runs = options.power_runs if scenario.group == "power" else options.runs
            starts = range(0, runs, CHUNK)
            jobs.append(
                [
                    pool.submit(
                        run_scenario,
                        plan,
                        scenario,
                        runs=range(start, min(start + CHUNK, runs)),
                        seed=options.seed,
                    )
                    for start in starts
                ]
            )
        for scenario, parts in zip(asked, jobs, strict=True):
            outcomes = Outcomes.joined(part.result() for part in parts)
            say(f"{scenario.name}: {len(outcomes.letters)} runs")
            yield scenario, outcomes


if __name__ == "__main__":
    raise SystemExit(main())
