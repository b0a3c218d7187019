"""How fast: paired ratios with intervals, overall and by stratum, and the tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.report.chart import Chart
from pipelines.report.charts.forest import forest
from pipelines.report.estimate import Estimate, read_estimate
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.words import Words

_STRATA = ("category", "language", "difficulty")
_LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
_QUANTILES = ("p50", "p90", "p95", "p99")
_RATIOS = ("tpot_p95_ratio", "ttft_p95_ratio", "tpot_ratio", "ttft_ratio")


def speed_section(inputs: ReportInputs, words: Words) -> Section:
    """Speed ratios and latency percentiles."""
    level = float(inputs.metrics.get("level") or 0.95)
    overall = [(words("speed.all"), inputs.overall)]
    by_sampling = [(str(scope["value"]), scope) for scope in inputs.scopes("sampling")]
    charts = [
        _chart(
            "speed_overall",
            words("speed.overall"),
            overall + by_sampling,
            inputs.candidates,
            words,
            limit=plan_limit(inputs.verdict, "speed_ratio"),
        )
    ]
    for by in _STRATA:
        scopes = [(str(scope["value"]), scope) for scope in inputs.scopes(by)]
        title = words("speed.by", by=words(f"by.{by}"))
        charts.append(_chart(f"speed_{by}", title, scopes, inputs.candidates, words))
    return Section(
        "speed",
        words("speed.title"),
        words("speed.lead", baseline=inputs.baseline, level=f"{level:.0%}"),
        charts,
        [_tails(inputs, words), _tail_ratios(inputs, words)],
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
    words: Words,
    *,
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
        words,
        quantity=words("speed.quantity"),
        caption=words("speed.caption"),
        reference=1.0,
        limit=limit,
        lacking=words("insufficient"),
    )


def _speed(scope: Json, arm: str) -> Estimate:
    return read_estimate(scope["comparisons"][arm]["speed_ratio"])


def _tails(inputs: ReportInputs, words: Words) -> Table:
    rows = []
    for metric in _LATENCIES:
        for arm in inputs.arms:
            found = inputs.overall["arms"][arm]["metrics"][metric]
            cells = [words.number(found.get(name), 1, scale=1000.0) for name in _QUANTILES]
            rows.append([words(f"latency.{metric}"), arm, *cells, str(found["n"])])
    return Table(
        words("tails.caption"),
        (words("tails.latency"), words("arm"), *_QUANTILES, words("requests")),
        rows,
        numeric=range(2, 7),
        note=words("tails.note"),
    )


def _tail_ratios(inputs: ReportInputs, words: Words) -> Table:
    rows = []
    for arm in inputs.candidates:
        comparison = inputs.overall["comparisons"][arm]
        for key in _RATIOS:
            found = read_estimate(comparison.get(key))
            ends = words.interval(found.low, found.high, 3)
            cells = [words.number(found.value, 3), ends, str(found.n or 0)]
            rows.append([words(f"latency.{key}"), arm, *cells])
    return Table(
        words("tails.ratios", baseline=inputs.baseline),
        [words(key) for key in ("tails.latency", "arm", "tails.ratio", "interval", "prompts")],
        rows,
        numeric=(2, 3, 4),
    )
