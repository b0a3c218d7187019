"""Plans with live stages, and rows of them with a known truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from specdecode.governance import Plan, Verdict, decide
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record
from tests.governance.plans import ERROR_METRIC, OFFLINE, SPEED_METRIC, WHY, small_plan

START = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLED = {"name": "sampled", "temperature": 1.0}

ERRORS = ERROR_METRIC | {"margin": 0.05}
LATENCY = ERROR_METRIC | {
    "name": "e2e_s",
    "transform": "indicator",
    "limit": 1.0,
    "bounds": {"low": 0, "high": None},
    "direction": "higher",
    "role": "primary",
    "margin": 0.9,
}
QUALITY = ERROR_METRIC | {
    "name": "quality",
    "transform": "difference",
    "direction": "higher",
    "role": "primary",
    "margin": 0.2,
}
WASTE = ERROR_METRIC | {
    "name": "target_tokens_per_output_token",
    "bounds": {"low": 0, "high": 6},
    "margin": 3.0,
}
ACCEPTANCE = ERROR_METRIC | {
    "name": "mean_acceptance_length",
    "direction": "higher",
    "bounds": {"low": 1, "high": 4},
    "margin": 1.5,
}
METRICS = (ERRORS, LATENCY, QUALITY, WASTE)

SHADOW = OFFLINE | {
    "name": "shadow",
    "rules": [],
    "metrics": ["error_rate", "e2e_s", "quality"],
    "method": "betting",
    "alpha": 0.05,
    "alarm_alpha": 0.05,
    "unit": "request",
    "n_min": 50,
    "n_max": 400,
}
CANARY = SHADOW | {"name": "canary", "n_max": 1000, "steps": [0.2, 0.5]}
WATCH = SHADOW | {
    "name": "watch",
    "metrics": ["error_rate", "e2e_s"],
    "method": "e-detector",
    "alarm_alpha": 0.0001,
    "n_max": None,
}
STRATA_RULE = {
    "kind": "strata",
    "name": "everywhere",
    "role": "guardrail",
    "arm": "block",
    "measure": "quality_difference",
    "strata": {"category": ["chat", "tool_call"]},
    "threshold": -0.5,
    "level": 0.95,
    "n_min": 20,
    "insufficient": "report",
    "why": WHY,
}


def live_plan(
    *stages: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]] = METRICS, **fields: Any
) -> Plan:
    """The small plan with these live stages (by default all three)."""
    plan = {
        "metrics": [SPEED_METRIC, *metrics],
        "stages": [OFFLINE, *(stages or (SHADOW, CANARY, WATCH))],
        "missing_data": {"max_missing_share": 0.02},
    }
    return small_plan(**(plan | fields))


def with_strata(**fields: Any) -> Plan:
    """The same, with two categories that must each hold."""
    from tests.governance.plans import FASTER

    return small_plan(
        FASTER,
        STRATA_RULE,
        **(
            {
                "metrics": [SPEED_METRIC, *METRICS],
                "stages": [OFFLINE, SHADOW, CANARY, WATCH],
                "missing_data": {"max_missing_share": 0.02},
                "strata": {"category": ["chat", "tool_call"]},
            }
            | fields
        ),
    )


Truth = Callable[[np.random.Generator, int], dict[str, Any]]


def healthy(rng: np.random.Generator, _: int) -> dict[str, Any]:
    """A request as it ought to be: no failure, nearly always in time."""
    return {"e2e_s": 0.5 if rng.random() < 0.99 else 2.0, "quality": float(rng.random() < 0.7)}


def failing(rate: float) -> Truth:
    """Requests that fail this often."""

    def draw(rng: np.random.Generator, index: int) -> dict[str, Any]:
        failed = {"error": "planted"} if rng.random() < rate else {}
        return healthy(rng, index) | failed

    return draw


def slow(share: float) -> Truth:
    """Requests that take too long this often."""
    return lambda rng, i: healthy(rng, i) | {"e2e_s": 2.0 if rng.random() < share else 0.5}


def scored(mean: float) -> Truth:
    """Replies with this mean score."""
    return lambda rng, i: healthy(rng, i) | {"quality": float(rng.random() < mean)}


def row(index: int, arm: str, stage: str, **fields: Any) -> dict[str, Any]:
    """One row of a live stage; a failed one has no numbers."""
    failed = fields.get("error") is not None
    e2e = fields.pop("e2e_s", 0.5)
    numbers = {
        "output_tokens": 10,
        "ttft_s": 0.1,
        "e2e_s": e2e,
        "steps": 10,
        "accepted": 0,
        "drafted": 0 if arm == "plain" else 30,
        "target_tokens": 10 if arm == "plain" else 20,
        "quality": 1.0,
    }
    given = numbers | fields
    if failed:
        given |= dict.fromkeys(numbers)
    return {
        "request_id": f"r{index:05d}/sampled/{arm}",
        "prompt_id": f"r{index:05d}",
        "arm": arm,
        "stage": stage,
        "profile": None,
        "category": ("chat", "tool_call")[index % 2],
        "sampling": SAMPLED,
        "error": None,
        "started_at": START + timedelta(seconds=index),
        "manifest_sha256": "a" * 64,
    } | given


def shadow(
    n: int, candidate: Truth = healthy, baseline: Truth = healthy, seed: int = 0
) -> list[dict[str, Any]]:
    """n requests answered by both arms."""
    rng = np.random.default_rng(seed)
    return [
        row(index, arm, "shadow", **truth(rng, index))
        for index in range(n)
        for arm, truth in (("plain", baseline), ("block", candidate))
    ]


def canary(
    n: int,
    candidate: Truth = healthy,
    baseline: Truth = healthy,
    seed: int = 0,
    *,
    share: float = 0.5,
    step: float | None = None,
    first: int = 0,
) -> list[dict[str, Any]]:
    """n requests, the candidate with this share of them; `step` is what the rows say it is."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(first, first + n):
        arm = "block" if rng.random() < share else "plain"
        truth = candidate if arm == "block" else baseline
        own = truth(rng, index)
        rows.append(row(index, arm, "canary", profile=f"{step or share:g}", **own))
    return rows


def watch(n: int, candidate: Truth = healthy, seed: int = 0) -> list[dict[str, Any]]:
    """n requests of the released arm."""
    rng = np.random.default_rng(seed)
    return [row(index, "block", "watch", **candidate(rng, index)) for index in range(n)]


def entry(verdict: Verdict, name: str, stratum: str | None = None) -> Any:
    """One entry of a verdict."""
    return next(e for e in verdict.rules if (e.name, e.stratum) == (name, stratum))


def judged(plan: Plan, stage: str, rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """The verdict at a stage."""
    return decide(plan.at(stage), list(rows))


def digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Of rows as an audit names them."""
    return rows_sha256(Record.model_validate(each) for each in rows)
