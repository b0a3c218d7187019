"""A small plan with all live stages, and simulated requests of one as the rows `decide` reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from specdecode.governance import Plan
from specdecode.governance.plan_power import Effects
from specdecode.governance.power_streams import Requests
from specdecode.measurement.records import checked
from tests.governance.plans import (
    EFFECTS,
    ERROR_METRIC,
    FASTER,
    OFFLINE,
    SPEED_METRIC,
    small_plan,
)

LATENCY = SPEED_METRIC | {"name": "e2e_s", "transform": "indicator", "limit": 2.0, "margin": 0.8}
QUALITY = SPEED_METRIC | {"name": "quality", "transform": "difference", "margin": 0.3,
                          "bounds": {"low": 0, "high": 1}}  # fmt: skip
DRAFTING = ERROR_METRIC | {"name": "draft_share", "margin": 0.5}
AMPLIFICATION = ERROR_METRIC | {"name": "target_tokens_per_output_token", "margin": 3.0,
                                "bounds": {"low": 0, "high": 5}}  # fmt: skip
METRICS = [SPEED_METRIC, ERROR_METRIC, LATENCY, QUALITY, DRAFTING, AMPLIFICATION]
SHADOW = OFFLINE | {
    "name": "shadow",
    "rules": [],
    "metrics": [m["name"] for m in METRICS[1:]],
    "method": "betting",
    "alpha": 0.05,
    "alarm_alpha": 0.05,
    "unit": "request",
    "n_min": 20,
    "n_max": 150,
}
CANARY = SHADOW | {"name": "canary", "steps": [0.25, 0.5], "n_max": 120}
WATCH = SHADOW | {
    "name": "watch",
    "metrics": ["error_rate", "e2e_s", "draft_share"],
    "method": "e-detector",
    "alarm_alpha": 0.001,
    "n_max": 400,
}
LIVE = {
    "plain": {"error_rate": 0.0, "kept": {"e2e_s": 0.95}},
    "block": {
        "error_rate": 0.0,
        "kept": {"e2e_s": 0.97},
        "values": {"draft_share": {"mean": 0.3, "spread": 0.1}},
    },
}


def live_plan(
    *stages: dict[str, Any],
    plain: dict[str, Any] | None = None,
    block: dict[str, Any] | None = None,
    more: list[dict[str, Any]] | None = None,
    metrics: list[dict[str, Any]] = METRICS,
    **fields: Any,
) -> Plan:
    """All stages (or those given), with live effects of which the arms' may differ.

    `fields` are of the plan, or of its supposed effects.
    """
    live = {"plain": LIVE["plain"] | (plain or {}), "block": LIVE["block"] | (block or {})}
    others = {name: value for name, value in fields.items() if name in Effects.model_fields}
    supposed = {"quality": 0.9, "same_score": 0.95, "live": live} | others
    return small_plan(
        FASTER,
        *(more or []),
        metrics=metrics,
        stages=[OFFLINE, *(stages or (SHADOW, CANARY, WATCH))],
        prompts_expected={"full": 30},
        missing_data={"max_missing_share": 0.1},
        power={"wanted": 0.8, "effects": EFFECTS | supposed},
        **{name: value for name, value in fields.items() if name not in others},
    )


def rows_of(plan: Plan, stage: str, steps: list[tuple[str | None, Requests, int]]) -> pa.Table:
    """The rows of the first n requests of the candidate in each step, and the baseline's beside.

    Args:
        plan: names the arms.
        stage: name of the stage.
        steps: in order, with their requests and n.
    """
    rows: list[dict[str, Any]] = []
    clock = datetime(2026, 1, 1, tzinfo=UTC)
    for step, found, n in steps:
        if stage == "shadow":
            order = [(arm, i) for i in range(n) for arm in ("plain", "block")]
        elif stage == "watch":
            order = [("block", i) for i in range(n)]
        else:
            others = int(found.known[n - 1])
            order, counts = [], {True: 0, False: 0}
            for ours in found.assigned.tolist():
                order.append(("block" if ours else "plain", counts[ours]))
                counts[ours] += 1
            order = [(arm, i) for arm, i in order if i < (n if arm == "block" else others)]
        for arm, i in order:
            own = found.arm if arm == "block" else found.baseline
            labels = found.labels if arm == "block" else found.other_labels
            numbers = {k: float(column[i]) for k, column in own.numbers.items()}
            for name in ("output_tokens", "steps", "drafted", "accepted", "target_tokens"):
                numbers[name] = int(numbers[name])
            quality = numbers.pop("quality")
            paired = stage == "shadow"
            setting = labels["sampling"][i]
            temperature = 0.0 if setting == "greedy" else 1.0
            place = i if paired else len(rows)
            rows.append(
                numbers
                | {
                    "request_id": f"{step}/{place}/{arm}",
                    "prompt_id": f"{step}/{place}" if paired else f"{step}/{arm}/{i}",
                    "arm": arm,
                    "stage": stage,
                    "profile": step,
                    "category": labels["category"][i] if "category" in labels else None,
                    "sampling": json.dumps({"name": setting, "temperature": temperature}),
                    "error": "supposed failure" if own.failed[i] else None,
                    "quality": None if np.isnan(quality) else quality,
                    "started_at": clock + timedelta(seconds=place),
                    "manifest_sha256": "0" * 64,
                }
            )
        clock += timedelta(days=1)
    return checked(pa.Table.from_pylist(rows))
