"""Rounds of blocks: within a round every way in turn, in an order that is drawn anew."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import psutil

from pipelines.route_bench.arms import (
    ROUTED,
    Arm,
    chosen,
    process_of,
    set_router,
    settled,
    url_of,
)
from pipelines.route_bench.block import Ask, Kind, run_block
from pipelines.route_bench.servers import LITELLM, Servers, Timing, running
from pipelines.route_bench.upstream import text_of
from specdecode.durable import written_whole
from specdecode.errors import ConfigError, EngineError
from specdecode.workload.load.arrivals import Gamma

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_WARM_UP: Final = 40
_ROUND: Final = "round-{:03d}.json"

Json = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        seconds: length of a block.
        rates: requests per second, each a Poisson process. What had to be met counts at the
            highest; a lower one shows a proxy that cannot keep up with that.
        rounds: how often every way is measured.
        seed: of arrivals and orders.
        arms: names; None is all.
        timing: of the upstream.

    Raises:
        ConfigError: naming the field.
    """

    seconds: float = 8.0
    rates: tuple[float, ...] = (100.0, 20.0)
    rounds: int = 6
    seed: int = 0
    arms: tuple[str, ...] | None = None
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        numbers = [("seconds", self.seconds), ("rounds", self.rounds)]
        for name, value in [*numbers, *(("rate", rate) for rate in self.rates)]:
            if not 0 < value < float("inf"):
                raise ConfigError(f"--{name} {value}: give a number above 0")
        if not self.rates or len(set(self.rates)) < len(self.rates):
            raise ConfigError("--rate: give one or more rates, each once")
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: give 0 or more")
        if self.seconds * min(self.rates) < 1:
            raise ConfigError("--seconds times --rate is below 1: a block would hold no request")
        chosen(self.arms)

    def due(self, number: int, rate: float, kind: Kind) -> list[float]:
        """Seconds at which requests of a round are due, the same for every way."""
        seed = int(self._draw(number, rate, kind).integers(2**32))
        times = Gamma(rate).times(seed)
        return list(itertools.takewhile(lambda at: at < self.seconds, times))

    def order(self, number: int, rate: float, kind: Kind) -> list[Arm]:
        """The ways in the order of a round."""
        arms = chosen(self.arms)
        return [arms[place] for place in self._draw(number, rate, kind).permutation(len(arms))]

    def _draw(self, number: int, rate: float, kind: Kind) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, round(1000 * rate), KINDS.index(kind)])


def measure(plan: Plan, folder: Path, say: Callable[[str], None]) -> list[Json]:
    """Measure the rounds that are not in the folder yet.

    Args:
        plan: what.
        folder: keeps every round as it ends, and the logs of the servers.
        say: told of the progress.

    Returns:
        All rounds: {"round", "blocks": [...]}, see `run_round`.

    Raises:
        ConfigError: the folder holds rounds of another plan.
        MissingPrerequisiteError: LiteLLM is not installed.
        EngineError: a server does not start, or does not answer.
    """
    _same_plan(plan, folder)
    missing = [n for n in range(1, plan.rounds + 1) if not (folder / _ROUND.format(n)).is_file()]
    if missing:
        names = {arm.name for arm in chosen(plan.arms)}
        with running(
            folder / f"servers-{datetime.now(UTC):%Y%m%dT%H%M%S}",
            plan.timing,
            router=bool(names & set(ROUTED)),
            litellm=LITELLM in names,
        ) as servers:
            for number in missing:
                found = run_round(plan, number, servers, say)
                with written_whole(folder / _ROUND.format(number)) as file:
                    file.write(json.dumps(found).encode() + b"\n")
    return [
        json.loads((folder / _ROUND.format(number)).read_bytes())
        for number in range(1, plan.rounds + 1)
    ]


def run_round(plan: Plan, number: int, servers: Servers, say: Callable[[str], None]) -> Json:
    """Every way once at each rate, whole replies and streams.

    Args:
        plan: what.
        number: of the round.
        servers: that run.
        say: told of the progress.

    Returns:
        Of each block: arm, rate, kind, times of the replies in seconds (null where there is none),
        errors by message, how long it all took, seconds of CPU time of the proxy in it, and
        requests that the candidate had.
    """
    blocks = []
    for rate, kind in itertools.product(plan.rates, KINDS):
        due = plan.due(number, rate, kind)
        for arm in plan.order(number, rate, kind):
            say(f"round {number} of {plan.rounds}: {rate:g}/s, {kind}, {arm.shown}")
            ask = Ask(
                url=url_of(arm, servers),
                kind=kind,
                text=text_of(plan.timing.chunks),
                user=f"{number}-{arm.name}-{kind}-{rate:g}",
            )
            labels = {"arm": arm.name, "rate": rate, "kind": kind}
            blocks.append(labels | block_of(arm, ask, due, servers))
    return {"round": number, "blocks": blocks}


def block_of(arm: Arm, ask: Ask, due: Sequence[float], servers: Servers) -> Json:
    """One block over one way; see `run_round`.

    Args:
        arm: the way.
        ask: what is sent.
        due: when.
        servers: that run.
    """
    proxy = process_of(arm, servers)
    if arm.mode is not None and proxy is not None:
        set_router(proxy.url, arm)
    used: list[float] = []
    had: list[int] = []
    began: list[float] = []

    def start() -> None:
        had.append(settled(servers.candidate, servers.router))
        if proxy is not None:
            used.append(cpu_s(proxy.pid))
        began.append(time.monotonic())

    replies = asyncio.run(run_block(ask, due, _WARM_UP, start))
    wall_s = time.monotonic() - began[0]
    spent = cpu_s(proxy.pid) - used[0] if proxy is not None else None
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "lag_s": [round(reply.lag_s, 6) for reply in replies],
        "first_s": [_rounded(reply.first_s) for reply in replies],
        "total_s": [_rounded(reply.total_s) for reply in replies],
        "errors": dict(Counter(reply.error for reply in replies if reply.error is not None)),
        "wall_s": round(wall_s, 3),
        "cpu_s": spent,
        "candidate_requests": settled(servers.candidate, servers.router) - had[0],
    }


def cpu_s(pid: int) -> float:
    """Seconds of CPU time that a process and its children have used.

    Raises:
        EngineError: it has ended.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            raise psutil.NoSuchProcess(pid)
        total = 0.0
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # a child may end at any time
                times = each.cpu_times()
                total += times.user + times.system
    except psutil.Error as error:
        raise EngineError(
            f"the proxy with process id {pid} has ended in the middle of a block; its log is in "
            "the folder of --out"
        ) from error
    return total


def _same_plan(plan: Plan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path, wanted = folder / "plan.json", json.loads(json.dumps(asdict(plan)))
    wanted.pop("rounds")  # more of them can be added
    if not path.is_file():
        with written_whole(path) as file:
            file.write(json.dumps(wanted, indent=1).encode() + b"\n")
        return
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{path} is not the plan of a measurement: {error}") from error
    if found != wanted:
        raise ConfigError(
            f"{folder} holds rounds of another measurement ({path} says which): give another "
            "folder with --out, or remove it"
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
