"""How fast: paired ratios with intervals, overall and by stratum, and the tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.report.chart import Chart
from pipelines.report.charts.forest import forest
from pipelines.report.estimate import Estimate, interval, number, read_estimate
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table

TOO_FEW = "fewer than two prompts with both arms"
_QUANTITY = "speed relative to plain decoding (higher is faster)"
_STRATA = ("category", "language", "difficulty")
_LATENCIES = (
    ("ttft_s", "time to first token"),
    ("tpot_s", "time per further token"),
    ("e2e_s", "whole request"),
)
_QUANTILES = ("p50", "p90", "p95", "p99")


def speed_section(inputs: ReportInputs) -> Section:
    """Speed ratios and latency percentiles."""
    level = float(inputs.metrics.get("level") or 0.95)
    overall = [("all requests", inputs.overall)]
    by_sampling = [(str(scope["value"]), scope) for scope in inputs.scopes("sampling")]
    charts = [
        _chart(
            "speed_overall",
            "Speed against plain decoding",
            overall + by_sampling,
            inputs.candidates,
            limit=plan_limit(inputs.verdict, "speed_ratio"),
        )
    ]
    for by in _STRATA:
        scopes = [(str(scope["value"]), scope) for scope in inputs.scopes(by)]
        charts.append(_chart(f"speed_{by}", f"Speed by {by}", scopes, inputs.candidates))
    return Section(
        "speed",
        "Speed",
        f"Tokens per second of each arm divided by those of {inputs.baseline} decoding on the same "
        f"prompts. 1 is no difference. Intervals are {level:.0%}, over prompts.",
        charts,
        [_tails(inputs), _tail_ratios(inputs)],
    )


def plan_limit(verdict: Mapping[str, Any], kind: str) -> float | None:
    """Threshold of the plan's first rule of a kind over all prompts; None without one."""
    for rule in verdict.get("rules") or ():
        if rule.get("kind") == kind and not rule.get("stratum"):
            threshold = rule.get("threshold")
            return None if threshold is None else float(threshold)
    return None


def _chart(
    name: str,
    title: str,
    scopes: Sequence[tuple[str, Json]],
    arms: Sequence[str],
    limit: float | None = None,
) -> Chart:
    groups = [
        (label, {arm: _speed(scope, arm) for arm in arms if arm in scope["comparisons"]})
        for label, scope in scopes
    ]
    return forest(
        name,
        title,
        groups,
        quantity=_QUANTITY,
        caption="Marker: ratio. Bar: its interval. Dashed line: no difference. Insufficient: "
        f"{TOO_FEW}.",
        reference=1.0,
        limit=limit,
        lacking="insufficient",
    )


def _speed(scope: Json, arm: str) -> Estimate:
    return read_estimate(scope["comparisons"][arm]["speed_ratio"], reason=TOO_FEW)


def _tails(inputs: ReportInputs) -> Table:
    rows = []
    for metric, label in _LATENCIES:
        for arm in inputs.arms:
            found = inputs.overall["arms"][arm]["metrics"][metric]
            cells = [number(found.get(name), 1, scale=1000.0) for name in _QUANTILES]
            rows.append([label, arm, *cells, str(found["n"])])
    return Table(
        "Latency percentiles over requests, milliseconds",
        ("latency", "arm", *_QUANTILES, "requests"),
        rows,
        numeric=range(2, 7),
        note="The p99 of n requests is close to their maximum when n is below a few hundred.",
    )


def _tail_ratios(inputs: ReportInputs) -> Table:
    rows = []
    for arm in inputs.candidates:
        comparison = inputs.overall["comparisons"][arm]
        for key, label in (
            ("tpot_p95_ratio", "p95 of time per further token"),
            ("ttft_p95_ratio", "p95 of time to first token"),
            ("tpot_ratio", "time per further token, pooled"),
            ("ttft_ratio", "time to first token, pooled"),
        ):
            found = read_estimate(comparison.get(key), reason=TOO_FEW)
            rows.append(
                [
                    label,
                    arm,
                    number(found.value, 3),
                    interval(found.low, found.high, 3),
                    str(found.n or 0),
                ]
            )
    return Table(
        f"Latency relative to {inputs.baseline} decoding (lower is faster)",
        ("latency", "arm", "ratio", "interval", "prompts"),
        rows,
        numeric=(2, 3, 4),
    )
