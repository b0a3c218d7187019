"""Soak the router: `python -m pipelines.router_soak`, or `make router-soak`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from pipelines import settings
from pipelines.console import say
from pipelines.router_soak.page import write_page
from pipelines.router_soak.soak import Plan, run_soak, write
from pipelines.soak.rule import Rule
from specdecode.errors import SpecdecodeError
from specdecode.workload.interrupts import terminated_as_interrupted

REPORT = Path("reports/router-soak.json")
PAGE = Path("docs/router-soak.md")


def main(argv: list[str] | None = None) -> int:
    """Run it.

    Returns:
        0 if no row was lost and memory is flat; 1 if not; 2 for what the caller can fix; 130
        interrupted.
    """
    own = Plan()
    parser = argparse.ArgumentParser(prog="make router-soak", description=__doc__)
    parser.add_argument("--minutes", type=_positive, default=own.minutes, help="of traffic (30)")
    parser.add_argument("--speed", type=_positive, default=own.speed, help="of the trace (2)")
    parser.add_argument(
        "--faulty", type=_share, default=own.faulty, help="share that fails at the candidate (0.02)"
    )
    parser.add_argument(
        "--leaving", type=_positive, default=own.leaving_per_s, help="users who go, a second (0.5)"
    )
    parser.add_argument("--every", type=_positive, default=own.every_s, help="s between samples")
    parser.add_argument(
        "--allowed-mb-per-hour", type=_positive, default=Rule.mb_per_hour, help="growth (60)"
    )
    parser.add_argument(
        "--allowed-step-mb", type=_positive, default=Rule.step_mb, help="in one go (16)"
    )
    parser.add_argument("--seed", type=int, default=own.seed, help="of the faults (0)")
    parser.add_argument("--out", type=Path, help="new folder (.workspaces/router-soak-<time>)")
    parser.add_argument("--report", type=Path, default=REPORT, help=f"default {REPORT}")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default {PAGE}")
    options = parser.parse_args(argv)
    settings.work_offline()
    folder = options.out or Path(f".workspaces/router-soak-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    plan = Plan(
        options.minutes, options.speed, options.faulty, options.leaving, options.every,
        Rule(options.allowed_mb_per_hour, options.allowed_step_mb), options.seed,
    )  # fmt: skip
    say(f"Soaking the router for {plan.minutes:g} minutes; the plan is in {folder}/plan.json …")
    try:
        with terminated_as_interrupted():
            report = run_soak(plan, folder)
            write(options.report, report)
            write_page(options.page, report)
    except SpecdecodeError as error:
        say(f"router soak failed: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"Interrupted; {folder} has the samples, and there is no verdict.")
        return 130
    say(f"{report['line']}\nWrote {options.report} and {options.page}.")
    return 0 if report["passed"] else 1


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share from 0 to 1")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
