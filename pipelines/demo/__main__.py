"""A rollout on this machine, from shadow to promotion or back: `make up`, `make down`.

python -m pipelines.demo up                    a good candidate
python -m pipelines.demo up --fault slow       one that is to be taken back
python -m pipelines.demo status
python -m pipelines.demo down
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pipelines import settings as pipeline_settings
from pipelines.console import say
from pipelines.demo.approver import command
from pipelines.demo.drive import Flows, drive, watch
from pipelines.demo.faults import FAULTS, FaultSettings
from pipelines.demo.processes import Card, Family
from pipelines.demo.stack import (
    LITTLE_TRAFFIC,
    DemoSettings,
    Run,
    flow_environment,
    prepare,
    start,
    traffic,
)
from pipelines.demo.story import Moment, look, summary
from specdecode.durable import written_whole
from specdecode.errors import ConfigError, EngineError, SpecdecodeError, UserError
from specdecode.workload.interrupts import terminated_as_interrupted

BASE = Path(".workspaces/demo")
_CURRENT = "current"
_ENDS = {
    "promoted": "PROMOTED: all users have the candidate.",
    "taken back": "TAKEN BACK: all users have the baseline.",
    "held": "HELD: it neither goes on nor back; the last verdict says what is missing.",
}


def main(argv: list[str] | None = None) -> int:
    """Do one of the three; 0 done, 1 something failed, 2 wrong usage, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=BASE, help=f"default {BASE}")
    actions = parser.add_subparsers(dest="action", required=True)
    up = actions.add_parser("up", help="start everything, and tell what happens")
    up.add_argument(
        "--fault", choices=(*FAULTS, LITTLE_TRAFFIC), default=FAULTS[0], help="default none"
    )
    up.add_argument(
        "--when",
        choices=("off", "canary", "full"),
        default="off",
        help="mode of the router in which the fault begins (off: from the start)",
    )
    up.add_argument("--speed", type=float, default=1.0, help="of the traffic (1)")
    up.add_argument("--ask", action="store_true", help="you sign the approvals yourself")
    up.add_argument("--every", type=float, default=2.0, help="seconds between two looks (2)")
    actions.add_parser("status", help="what runs, and where the release is")
    actions.add_parser("down", help="end everything; files stay")
    options = parser.parse_args(argv)
    pipeline_settings.work_offline()
    base = options.folder.absolute()
    try:
        with terminated_as_interrupted():
            if options.action == "down":
                return _down(base)
            return _status(base) if options.action == "status" else _up(base, options)
    except UserError as error:
        say(str(error))
        return 2
    except (SpecdecodeError, OSError) as error:
        say(f"{options.action} failed: {error}")
        return 1
    except KeyboardInterrupt:
        say("Interrupted. What was started goes on; `make down` ends it.")
        return 130


def _up(base: Path, options: argparse.Namespace) -> int:
    if not 0 < options.speed < float("inf") or not 0 < options.every < float("inf"):
        raise ConfigError("--speed and --every: give more than 0")
    settings = DemoSettings(
        Path.cwd(), options.fault, options.when, options.speed, signs=not options.ask
    )
    if options.fault != LITTLE_TRAFFIC:  # refuses now what no engine could do
        FaultSettings(options.fault, waits=options.when != "off")
    family = Family(base)
    with family.alone():
        if running := [card.name for card in family.cards() if card.process() is not None]:
            raise ConfigError(f"it is up already ({', '.join(running)}): `make down` first")
        family.end()
        name = f"run-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        say(f"{base / name}: models, plan, keys …")
        run = prepare(base, name, settings)
        with written_whole(base / _CURRENT) as file:
            file.write(name.encode())
        try:
            cards = _start(family, run, settings)
        except BaseException:
            family.end()
            raise
    return _tell(family, run, cards, options, settings)


def _start(family: Family, run: Run, settings: DemoSettings) -> dict[str, Card]:
    cards: dict[str, Card] = {}
    for card in start(family, run, settings):
        cards[card.name] = card
        say(f"  {card.name:<10} {card.url or 'runs'}")
    return cards


def _tell(
    family: Family,
    run: Run,
    cards: dict[str, Card],
    options: argparse.Namespace,
    settings: DemoSettings,
) -> int:
    urls = {name: card.url for name, card in cards.items()}
    os.environ.update(flow_environment(run, urls["prefect"]))  # before Prefect is imported
    if options.ask:
        told = " ".join(command(run.papers, run.records / "release-…/….verdict.json"))
        say(f"You sign each GO yourself:\n  {told}")
    flows = Flows(options.every)
    cues: dict[str, Callable[[], object]] = {}
    if settings.fault == LITTLE_TRAFFIC:
        cues["shadow"] = lambda: family.start(traffic(run, urls["router"], settings))
    elif settings.when != "off":
        cues[settings.when] = lambda: _begin_fault(cards["candidate"], settings.fault)

    def seen() -> Moment:
        now = look(urls["router"], run.gate, run.traffic)
        if now.mode in cues:
            cues.pop(now.mode)()
        return now

    outcome = drive(flows, seen)
    if outcome == "promoted":
        outcome = watch(flows, seen)
    say("")
    say(_ENDS[outcome])
    for sentence in summary(seen()):
        say(f"  {sentence}")
    say(f"Flows: {urls['prefect']}   registry: {urls['mlflow']}   gate: {urls['router']}/gate")
    say("Everything goes on; `make down` ends it.")
    return 0


def _begin_fault(candidate: Card, fault: str) -> None:
    if (process := candidate.process()) is None:
        raise EngineError(f"the candidate has ended; its log is {candidate.log}")
    process.send_signal(signal.SIGUSR1)
    say(f"from now on the candidate is faulty: {fault}")


def _status(base: Path) -> int:
    if not base.is_dir():
        say("nothing was ever started here")
        return 0
    family = Family(base)
    urls = {}
    for card in family.cards():
        urls[card.name] = card.url
        state = card.url or "runs"
        say(f"  {card.name:<10} {state if card.process() is not None else 'has ended'}")
    if "router" in urls and (base / _CURRENT).exists():
        folder = base / (base / _CURRENT).read_text()
        now = look(urls["router"], folder / "gate.json", folder / "traffic.json")
        told = "does not answer" if now.mode is None else now.mode
        say(f"router: {told}; latest verdict: {now.place or 'none'}")
        for sentence in summary(now):
            say(f"  {sentence}")
    return 0


def _down(base: Path) -> int:
    if not base.is_dir():
        say("nothing was ever started here")
        return 0
    family = Family(base)
    with family.alone(instead=True):
        ended = family.end()
    say(f"ended: {', '.join(ended)}" if ended else "nothing ran")
    if left := family.strays():
        raise EngineError(f"still running: {left}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
