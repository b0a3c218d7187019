"""Measure what the router adds to a request, beside LiteLLM: `python -m pipelines.route_bench`.

About half an hour on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pipelines import settings
from pipelines.console import say
from pipelines.environment import describe
from pipelines.external.environments import external
from pipelines.route_bench.added import LEVEL, summary
from pipelines.route_bench.arms import chosen
from pipelines.route_bench.measure import Plan, measure
from pipelines.route_bench.page import write_page
from pipelines.route_bench.servers import LITELLM
from specdecode.durable import written_whole
from specdecode.errors import ConfigError, SpecdecodeError
from specdecode.workload.interrupts import terminated_as_interrupted

SCHEMA = "specdecode.router-bench/1"
FOLDER = Path("data/route-bench")
REPORT = Path("reports/router.json")
PAGE = Path("docs/router-latency.md")
PICTURE = Path("docs/images/router.png")


def main(argv: list[str] | None = None) -> int:
    """Measure, and write report, page and picture. Goes on where an earlier call stopped.

    Returns:
        0 if everything that had to be met is; 1 if not; 2 for what the caller can fix; 130
        interrupted.
    """
    parser = argparse.ArgumentParser(prog="python -m pipelines.route_bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="length of a block")
    parser.add_argument(
        "--rate",
        type=float,
        nargs="+",
        default=Plan.rates,
        help="requests a second; default 100 20",
    )
    parser.add_argument("--rounds", type=int, default=Plan.rounds, help="how often all is measured")
    parser.add_argument("--seed", type=int, default=Plan.seed, help="of arrivals and orders")
    parser.add_argument("--arms", nargs="*", default=None, help="only some; default all")
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"rounds; default {FOLDER}")
    parser.add_argument("--redraw", action="store_true", help="page and picture from the report")
    parser.add_argument("--report", type=Path, default=REPORT, help=f"default {REPORT}")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default {PAGE}")
    parser.add_argument("--picture", type=Path, default=PICTURE, help=f"default {PICTURE}")
    options = parser.parse_args(argv)
    settings.work_offline()
    try:
        with terminated_as_interrupted():
            return _bench(options)
    except SpecdecodeError as error:
        say(f"Error: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"Interrupted; the same command goes on with the whole rounds in {options.out}.")
        return 130


def _bench(options: argparse.Namespace) -> int:
    if options.redraw:
        report = _read(options.report)
    else:
        plan = Plan(
            seconds=options.seconds,
            rates=tuple(options.rate),
            rounds=options.rounds,
            seed=options.seed,
            arms=None if options.arms is None else tuple(options.arms),
        )
        report = report_of(plan, measure(plan, options.out, say))
        options.report.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(options.report) as file:
            file.write(json.dumps(report, indent=1, ensure_ascii=False).encode() + b"\n")
    from pipelines.route_bench.picture import draw

    draw(report, options.picture)
    write_page(options.page, report, options.picture)  # last: it never shows what is not there
    say(f"Wrote {options.report}, {options.page} and {options.picture}.")
    missed = [f"{bar['arm']}: {bar['what']}" for bar in report["bars"] if not bar["met"]]
    for line in missed:
        say(f"Not met: {line}.")
    return 1 if missed or not report["bars"] else 0


def report_of(plan: Plan, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The report.

    Args:
        plan: of the measurement.
        rounds: as measured.
    """
    versions = {name: metadata.version(name) for name in ("aiohttp", "uvicorn")}
    if LITELLM in {arm.name for arm in chosen(plan.arms)}:
        versions[LITELLM] = _locked(LITELLM)
    return {
        "schema": SCHEMA,
        "ended_at": max(block["at"] for each in rounds for block in each["blocks"]),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(None),
        "plan": asdict(plan),
        "versions": versions,
        "level": LEVEL,
        **summary(rounds),
        "errors": _errors(rounds),
    }


def _errors(rounds: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Messages by way, and how often."""
    found: dict[str, dict[str, int]] = {}
    for block in (block for each in rounds for block in each["blocks"]):
        for message, times in block["errors"].items():
            of_arm = found.setdefault(block["arm"], {})
            of_arm[message] = of_arm.get(message, 0) + times
    return found


def _locked(name: str) -> str:
    """The version that an environment is made of."""
    what = external(name)
    lines = what.lock_path.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{what.package}==")).split("==")[1]


def _read(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): measure without --redraw") from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise ConfigError(f"{path} is no report of this measurement: measure without --redraw")
    return report


if __name__ == "__main__":
    raise SystemExit(main())
