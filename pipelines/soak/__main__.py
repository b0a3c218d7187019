"""Soak the server: `python -m pipelines.soak`, or `make soak`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from pipelines import settings
from pipelines.console import say
from pipelines.soak.rule import Rule
from pipelines.soak.soak import PICTURE, REPORT, Plan, run_soak
from specdecode.cli.target import DEFAULT_TARGET
from specdecode.errors import EngineError, UserError
from specdecode.workload.interrupts import terminated_as_interrupted


def main() -> int:
    """Run it; 0 if memory is flat and everybody was met as promised, else 1; 130 interrupted."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=_positive, default=10.0, help="of load (default 10)")
    parser.add_argument("--concurrency", type=int, default=16, help="clients (default 16)")
    parser.add_argument("--target", default=DEFAULT_TARGET, help=f"default {DEFAULT_TARGET}")
    parser.add_argument("--draft", default="self-int4", help="or none (default self-int4)")
    parser.add_argument("--every", type=_positive, default=1.0, help="seconds between samples (1)")
    parser.add_argument(
        "--allowed-mb-per-hour", type=_positive, default=Rule.mb_per_hour, help="growth (60)"
    )
    parser.add_argument(
        "--allowed-step-mb", type=_positive, default=Rule.step_mb, help="in one go (16)"
    )
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--out", type=Path, help="new folder (default .workspaces/soak-<time>)")
    options = parser.parse_args()
    settings.work_offline()
    folder = options.out or Path(f".workspaces/soak-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    rule = Rule(options.allowed_mb_per_hour, options.allowed_step_mb)
    plan = Plan(
        options.target, options.draft, options.minutes, options.concurrency,
        options.every, rule, options.seed,
    )  # fmt: skip
    say(f"Soaking for {plan.minutes:g} minutes; the rule is in {folder}/plan.json …")
    try:
        with terminated_as_interrupted():
            report = run_soak(plan, folder)
    except (UserError, EngineError) as error:
        say(f"soak failed: {error}")
        return 1
    except KeyboardInterrupt:
        say(f"Interrupted; {folder} has the samples, and there is no verdict.")
        return 130
    say(f"{report['line']}\nWrote {folder}/{REPORT} and {folder}/{PICTURE}.")
    return 0 if report["passed"] else 1


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
