"""Install external engines, make what they load, audit one: `python -m pipelines.external`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pipelines import settings
from pipelines.console import say
from pipelines.external.environments import EXTERNALS, install
from specdecode.durable import written_whole
from specdecode.errors import SpecdecodeError
from specdecode.workload.interrupts import terminated_as_interrupted


def main(argv: list[str] | None = None) -> int:
    """Do what the first word says.

    Returns:
        0; 1 if the audit came out otherwise than it must: an arm that is not found lossless, or a
        known fault that is not found; 2 for what the caller can fix; 130 interrupted.
    """
    parser = argparse.ArgumentParser(prog="python -m pipelines.external", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("install", help="make the environments of engines")
    one.add_argument("engines", nargs="*", metavar="ENGINE", help=f"{', '.join(EXTERNALS)}")
    two = commands.add_parser("models", help="make what they load, and say where it is")
    three = commands.add_parser("audit", help="audit vLLM with and without speculation")
    three.add_argument("--arms", nargs="*", default=None)
    three.add_argument("--rounds", type=_count, default=16, help="requests of each way to sample")
    three.add_argument("--seed", type=int, default=20261130)
    three.add_argument("--alpha", type=float, default=0.01)
    three.add_argument("--threads", type=int, default=2)
    three.add_argument("--out", type=Path)
    for command in (two, three):
        command.add_argument("--target", default=None, help="model source (see specdecode --help)")
    options = parser.parse_args(argv)
    settings.work_offline()
    try:
        if options.command == "install":
            for name in options.engines or EXTERNALS:
                install(name)
            return 0
        with terminated_as_interrupted():
            return _with_models(options)
    except SpecdecodeError as error:
        say(f"Error: {error}")
        return 2
    except KeyboardInterrupt:
        say("Interrupted; the same command goes on with what is there.")
        return 130


def _with_models(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from pipelines.external.models import DEFAULT_SOURCE, prepare

    models = prepare(options.target or DEFAULT_SOURCE)
    if options.command == "models":
        sys.stdout.write(json.dumps(asdict(models), default=str, indent=2) + "\n")
        return 0
    from pipelines.external.audit import REPORT, arms, run

    evidence = run(
        models,
        list(arms(models)) if options.arms is None else options.arms,
        rounds=options.rounds,
        seed=options.seed,
        alpha=options.alpha,
        threads=options.threads,
    )
    out = options.out or REPORT
    out.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(out) as file:
        file.write((json.dumps(evidence, indent=2, sort_keys=True) + "\n").encode())
    verdicts = {name: arm["verdict"] for name, arm in evidence["arms"].items()}
    for name, verdict in verdicts.items():
        say(f"{name}: {verdict}. {'; '.join(evidence['arms'][name]['reasons'])}")
    say(f"Written to {out}.")
    known = arms(models)
    expected = {name: "biased" if known[name].faulty else "lossless" for name in verdicts}
    return 0 if verdicts == expected else 1


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


if __name__ == "__main__":
    sys.exit(main())
