"""A soak from start to verdict: server, load, ill-behaved clients, samples, checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from pipelines.environment import describe
from pipelines.soak.misbehave import CLIENTS, Misbehaviour, burst
from pipelines.soak.picture import draw
from pipelines.soak.rule import MB, Check, Rule, Series, judge, slope_mb_per_hour
from pipelines.soak.sampling import Sample, Sampler
from specdecode.durable import written_whole
from specdecode.errors import ConfigError
from specdecode.workload.load import LoadSpec, run_load
from specdecode.workload.load.faults import TOO_MANY
from specdecode.workload.server_process import PROGRAM, ServerProcess, own_server

SCHEMA = "specdecode.soak/1"
PLAN, REPORT, PICTURE, SAMPLES = "plan.json", "soak.json", "soak.png", "samples.jsonl"
LOG, MODEL = "server.log", "soaked"
SLOTS, QUEUE, MAX_BODY = 8, 32, 256 * 1024
_MAX_TOKENS, _INPUT_TOKENS = 32, 48
_STOP_S = 60.0


@dataclass(frozen=True)
class Plan:
    """What is asked of a soak.

    Attributes:
        target: model behind the server.
        draft: its draft, or "none".
        minutes: of load; starting, settling and stopping come on top.
        concurrency: well-behaved clients.
        every_s: time between samples.
        rule: what counts as flat.
        seed: of prompts, replies and misbehaviour.
    """

    target: str
    draft: str
    minutes: float = 10.0
    concurrency: int = 16
    every_s: float = 1.0
    rule: Rule = field(default_factory=Rule)
    seed: int = 0

    @property
    def seconds(self) -> float:
        """Length of the load."""
        return 60 * self.minutes

    @property
    def options(self) -> list[str]:
        """Of `specdecode serve`."""
        limits = ["--slots", str(SLOTS), "--queue", str(QUEUE), "--max-body-bytes", str(MAX_BODY)]
        model = ["--target", self.target, "--draft", self.draft, "--served-model-name", MODEL]
        return [*model, *limits]


def run_soak(plan: Plan, folder: Path, program: Sequence[str] = PROGRAM) -> dict[str, Any]:
    """Soak a server and judge it.

    Args:
        plan: of the soak; written to the folder before the server is started.
        folder: new or empty; gets plan, samples, rows of the load, log, report and picture.
        program: what to call with `serve`.

    Returns:
        The report, as written to `soak.json`. `report["passed"]` is the verdict.

    Raises:
        ConfigError: the folder is not empty.
        EngineError: the server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; name a new folder for each soak")
    told = {"schema": SCHEMA, "plan": asdict(plan), "machine": describe(None)}
    _write(folder / PLAN, told)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    command = replace(own_server(*plan.options, program=program), stop_s=_STOP_S)
    with ServerProcess(command, folder / LOG) as server:
        world = Misbehaviour(
            server.url, MODEL, crowd=2 * (SLOTS + QUEUE), oversized=2 * MAX_BODY,
            max_tokens=_MAX_TOKENS, burst_every_s=max(2.0, plan.seconds / 40), seed=plan.seed,
        )  # fmt: skip
        sampler = Sampler(server.pid, server.url, plan.every_s, folder / SAMPLES)
        before = _settle(plan, server, world, sampler, folder)
        with sampler, world:
            load = run_load(_load(plan, server), folder / "load").summary
        after = sampler.idle()
        end = _end(server)
    series = Series(
        [s.t_s for s in sampler.samples],
        [float(s.uss_bytes) for s in sampler.samples],
        [s.tokens for s in sampler.samples],
        plan.seconds,
        plan.every_s,
    )
    judged = judge(plan.rule, series)
    checks = [
        *judged,
        _left(before, after, "threads"),
        _left(before, after, "files"),
        _loaded(load),
        _met(world),
        end,
    ]
    report = told | {
        "started_at": started,
        "passed": all(check.passed for check in checks),
        "line": _line(plan, checks),
        "checks": [asdict(check) for check in checks],
        "slope_mb_per_hour": list(slope_mb_per_hour(series)) if judged[0].passed else None,
        "samples": _summary(sampler.samples),
        "idle": {name: s and asdict(s) for name, s in (("before", before), ("after", after))},
        "load": {name: load[name] for name in ("verdict", "errors", "throughput") if name in load},
        "clients": {"played": dict(world.played), "unmet": dict(world.unmet)},
    }
    _write(folder / REPORT, report)
    draw(sampler.samples, series, report, folder / PICTURE)
    return report


def _settle(
    plan: Plan, server: ServerProcess, world: Misbehaviour, sampler: Sampler, folder: Path
) -> Sample | None:
    """Everything once, so that what is made on first use is there; then the idle server."""
    spec = _load(plan, server).model_copy(
        update={"duration_s": None, "requests": 4 * plan.concurrency, "seed": plan.seed + 1}
    )
    run_load(spec, folder / "settling")
    world.once_each()
    world.once_each()
    return sampler.idle()


def _load(plan: Plan, server: ServerProcess) -> LoadSpec:
    return LoadSpec(
        url=server.url,
        api="completions",
        model=MODEL,
        arrivals="closed",
        concurrency=plan.concurrency,
        duration_s=plan.seconds,
        input_tokens=_INPUT_TOKENS,
        max_tokens=_MAX_TOKENS,
        ignore_eos=True,
        temperature=1.0,
        cancel_share=0.1,
        cancel_after=3,
        seed=plan.seed,
    )


def _end(server: ServerProcess) -> Check:
    """Whether the server is well to its end: it answers, stops in good order, logged no error."""
    try:
        healthy = httpx.get(server.url + "/health", timeout=30, trust_env=False).status_code == 200
    except httpx.HTTPError:
        healthy = False
    code = server.stop()
    lines = server.log.read_text("utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "CRITICAL", "Traceback"))]
    shown = f"; the first: {errors[0][:120]}" if errors else ""
    return Check(
        "server",
        healthy and code == 0 and not errors,
        f"{'healthy' if healthy else 'not healthy'} after the load, exit code {code}, "
        f"{len(errors)} errors in its log{shown}",
        "healthy, exit code 0, no errors in its log",
    )


def _left(before: Sample | None, after: Sample | None, name: str) -> Check:
    if before is None or after is None:
        when = "before" if before is None else "after"
        return Check(name, False, f"the server was never idle {when} the load", "an idle server")
    was, now = getattr(before, name), getattr(after, name)
    return Check(name, now <= was, f"{was} idle before, {now} after", "no more than before")


def _loaded(load: Mapping[str, Any]) -> Check:
    """Whether the load went on to its end; refusals are part of it, other failures are not."""
    verdict = load["verdict"]
    others = set(verdict["failed"]) - {TOO_MANY}
    return Check(
        "load",
        verdict["ok"] > 0 and not others and verdict["stopped"] is None,
        verdict["line"],
        f"replies to the end, and no failures but {TOO_MANY}",
    )


def _met(world: Misbehaviour) -> Check:
    missing = {c.__name__ for c in (*CLIENTS, burst)} - set(world.played)
    wrong = "; ".join(f"{number} × {what}" for what, number in world.unmet.items())
    return Check(
        "clients",
        not world.unmet and not missing,
        wrong or f"{world.played.total()} of {len(world.played)} kinds, all met as promised",
        "each ill-behaved client is met as promised",
    )


def _line(plan: Plan, checks: Sequence[Check]) -> str:
    failed = [f"{c.name}: {c.found}, wanted {c.wanted}" for c in checks if not c.passed]
    if failed:
        return f"soak failed: {'; '.join(failed)}"
    found = {check.name: check.found for check in checks}
    return (
        f"soak passed: memory flat over {plan.minutes:g} min, {found['slope']}, {found['step']}; "
        f"threads {found['threads']}; files {found['files']}"
    )


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Count, and first, median, last and most of each number; null where nothing is known."""
    found: dict[str, Any] = {"count": len(samples)}
    for name in Sample.__dataclass_fields__:
        known = [value for s in samples if (value := getattr(s, name)) is not None]
        if name != "t_s":
            found[name] = (
                {
                    "first": known[0],
                    "median": float(np.median(known)),
                    "last": known[-1],
                    "most": max(known),
                }
                if known
                else None
            )
    found["uss_mb_by_minute"] = [
        round(float(np.median(minute)) / MB, 2) for minute in _minutes(samples)
    ]
    return found


def _minutes(samples: Sequence[Sample]) -> list[list[int]]:
    minutes: dict[int, list[int]] = {}
    for sample in samples:
        minutes.setdefault(int(sample.t_s // 60), []).append(sample.uss_bytes)
    return list(minutes.values())


def _write(path: Path, document: Mapping[str, Any]) -> None:
    with written_whole(path) as file:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        file.write(text.encode("utf-8") + b"\n")
