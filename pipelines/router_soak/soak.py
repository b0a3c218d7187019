"""A soak of the router from start to verdict: servers, users, samples, accounts, checks."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pipelines.demo.replay import Replay, ReplaySettings
from pipelines.demo.traffic import TRACE, read_trace
from pipelines.environment import describe
from pipelines.route_bench.arms import ARMS, set_router
from pipelines.route_bench.servers import Timing, router_command, upstream_command
from pipelines.router_soak.accounts import Kept, Users, account, kept_in
from pipelines.router_soak.leaving import Leavers
from pipelines.router_soak.sampling import Sample, Sampler
from pipelines.soak.rule import MB, Check, Rule, Series, judge, slope_mb_per_hour
from specdecode.durable import written_whole
from specdecode.errors import ConfigError
from specdecode.workload.server_process import PORT, ServerCommand, ServerProcess

SCHEMA: Final = "specdecode.router-soak/1"
SAMPLES, LOG = "samples.jsonl", "router.log"
ARM: Final = ARMS["router-canary"]
TIMING: Final = Timing(chunks=8)
"""No reply is longer than any request of the trace allows."""
_SETTLING: Final = 200
_SETTLING_LEAVERS: Final = 5
_STOP_S: Final = 30.0

RouterCommand = Callable[[str, str, Path], ServerCommand]


@dataclass(frozen=True)
class Plan:
    """What is asked of a soak.

    Attributes:
        minutes: of traffic; starting, settling and stopping come on top.
        speed: of the trace, times its own.
        faulty: share of requests at the candidate that fail.
        leaving_per_s: users who go before the end of their reply.
        every_s: time between samples.
        rule: what counts as flat memory.
        seed: of the candidate's faults.
    """

    minutes: float = 30.0
    speed: float = 2.0
    faulty: float = 0.02
    leaving_per_s: float = 0.5
    every_s: float = 1.0
    rule: Rule = field(default_factory=Rule)
    seed: int = 0

    @property
    def seconds(self) -> float:
        """Length of the traffic."""
        return 60 * self.minutes


@dataclass
class Watched:
    """What the soak saw of the router from outside.

    Attributes:
        users: what they got.
        samples: of the time of traffic.
        before: the idle router before it; None if it never was.
        after: likewise after it.
        health: what the router said last.
    """

    users: Users = field(default_factory=Users)
    samples: list[Sample] = field(default_factory=list)
    before: Sample | None = None
    after: Sample | None = None
    health: dict[str, Any] | None = None


def run_soak(plan: Plan, folder: Path, command: RouterCommand = router_command) -> dict[str, Any]:
    """Soak a router and judge it.

    Args:
        plan: of the soak; written to the folder before anything is started.
        folder: new or empty; gets plan, samples, logs and what the router keeps.
        command: of the router.

    Returns:
        The report. `report["passed"]` is the verdict.

    Raises:
        ConfigError: the folder is not empty.
        EngineError: a server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; name a new folder for each soak")
    told = {"schema": SCHEMA, "plan": asdict(plan), "machine": describe(None)}
    write(folder / "plan.json", told)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with (
        ServerProcess(upstream_command(TIMING), folder / "baseline.log") as baseline,
        ServerProcess(_candidate(plan), folder / "candidate.log") as candidate,
        ServerProcess(
            replace(command(baseline.url, candidate.url, folder), stop_s=_STOP_S), folder / LOG
        ) as router,
    ):
        set_router(router.url, ARM)
        watched = asyncio.run(_watch(plan, router, folder))
        end = _end(router)
    kept = kept_in(folder / "router" / "spool", watched.health)
    checks = [*_memory(plan, watched), *account(watched.users, kept, ARM.share), end]
    report = told | {
        "started_at": started,
        "passed": all(check.passed for check in checks),
        "checks": [asdict(check) for check in checks],
        "line": _line(plan, checks),
        "slope_mb_per_hour": _slope(plan, watched),
        "samples": {
            "count": len(watched.samples),
            "uss_mb_by_minute": _by_minute(watched.samples),
            "before": watched.before and asdict(watched.before),
            "after": watched.after and asdict(watched.after),
        },
        "users": watched.users.document(),
        "kept": _told(kept),
        "health": watched.health,
    }
    write(folder / "router-soak.json", report)
    return report


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        file.write(text.encode() + b"\n")


def _candidate(plan: Plan) -> ServerCommand:
    argv = [sys.executable, "-m", "pipelines.router_soak.backend", "--port", PORT]
    argv += ["--faulty", str(plan.faulty), "--seed", str(plan.seed)]
    argv += ["--delay-ms", str(TIMING.delay_ms), "--chunks", str(TIMING.chunks)]
    argv += ["--gap-ms", str(TIMING.gap_ms)]
    return replace(upstream_command(TIMING), argv=argv)


async def _watch(plan: Plan, router: ServerProcess, folder: Path) -> Watched:
    """Users and samples, from the first request until the router is idle again."""
    watched, trace = Watched(), read_trace(TRACE)
    settings = ReplaySettings(router.url, speed=plan.speed)
    sampler = Sampler(router.pid, router.url, plan.every_s, folder / SAMPLES)
    leavers = Leavers(router.url, plan.leaving_per_s)
    # Everything once, so that what is made on first use is there.
    settling = Replay(trace, replace(settings, limit=_SETTLING, speed=4 * plan.speed), None)
    await settling.run()
    for _ in range(_SETTLING_LEAVERS):
        await leavers.one()
    idle = await sampler.idle()
    watched.before = None if idle is None else idle[0]

    stop, replay = asyncio.Event(), Replay(trace, settings, None)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sampler.run(stop))
        tasks.create_task(leavers.run(stop))
        tasks.create_task(replay.run())
        await asyncio.sleep(plan.seconds)
        stop.set()
        replay.stop()
    idle = await sampler.idle()
    if idle is not None:
        watched.after, watched.health = idle
    watched.samples, watched.users = sampler.samples, _users((settling, replay), leavers)
    return watched


def _users(replays: Sequence[Replay], leavers: Leavers) -> Users:
    found = Users(leavers.sent, leaving=leavers.sent, unanswered=leavers.unanswered)
    for replay in replays:
        counts = replay.counts
        found.sent += counts.sent
        found.whole.update(counts.arms)
        found.retried += counts.retried
        found.failed += counts.failed.total()
    return found


def _series(plan: Plan, samples: Sequence[Sample]) -> Series:
    return Series(
        [sample.t_s for sample in samples],
        [float(sample.uss_bytes) for sample in samples],
        [sample.recorded for sample in samples],
        plan.seconds,
        plan.every_s,
    )


def _memory(plan: Plan, watched: Watched) -> list[Check]:
    checks = judge(plan.rule, _series(plan, watched.samples))
    found = [  # that rule speaks of what a server writes
        replace(check, found=check.found.replace("tokens", "rows"), wanted="rows in every block")
        if check.name == "progress"
        else check
        for check in checks
    ]
    return [*found, _left(watched, "threads"), _left(watched, "files")]


def _slope(plan: Plan, watched: Watched) -> list[float] | None:
    series = _series(plan, watched.samples)
    enough = judge(plan.rule, series)[0].passed
    return list(slope_mb_per_hour(series)) if enough else None


def _left(watched: Watched, name: str) -> Check:
    if watched.before is None or watched.after is None:
        when = "before" if watched.before is None else "after"
        return Check(name, False, f"the router was never idle {when} the traffic", "an idle router")
    was, now = getattr(watched.before, name), getattr(watched.after, name)
    return Check(name, now <= was, f"{was} idle before, {now} after", "no more than before")


def _end(router: ServerProcess) -> Check:
    """Whether it ends in good order, and has logged no fault of its own."""
    code = router.stop()
    lines = router.log.read_text("utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "CRITICAL", "Traceback"))]
    shown = f"; the first: {errors[0][:120]}" if errors else ""
    return Check(
        "router",
        code == 0 and not errors,
        f"exit code {code}, {len(errors)} errors in its log{shown}",
        "exit code 0, no errors in its log",
    )


def _line(plan: Plan, checks: Sequence[Check]) -> str:
    if failed := [f"{c.name}: {c.found}, wanted {c.wanted}" for c in checks if not c.passed]:
        return f"router soak failed: {'; '.join(failed)}"
    found = {check.name: check.found for check in checks}
    return (
        f"router soak passed: {plan.minutes:g} min, {found['no row lost']}; "
        f"{found['sample ratio']} at the candidate; {found['slope']}"
    )


def _told(kept: Kept) -> dict[str, Any]:
    return {
        "rows": kept.rows.num_rows,
        "errors": kept.rows.num_rows - kept.rows.column("error").null_count,
        "without_row": dict(sorted(kept.ended.items())),
        "faults": list(kept.faults),
    }


def _by_minute(samples: Sequence[Sample]) -> list[float]:
    minutes: dict[int, list[int]] = {}
    for sample in samples:
        minutes.setdefault(int(sample.t_s // 60), []).append(sample.uss_bytes)
    return [round(sorted(each)[len(each) // 2] / MB, 2) for each in minutes.values()]
