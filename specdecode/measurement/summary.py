"""All numbers of a run as one JSON-safe document, and as flat tables for plots.

`headline` holds the few numbers worth a line in `dvc metrics diff`; everything else is below
`scopes`: overall, per sampling setting, and per stratum, each with its n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from specdecode.measurement.intervals import (
    difference_interval,
    metric_interval,
    quantile_ratio_interval,
    ratio_interval,
)
from specdecode.measurement.metrics import (
    METRICS,
    acceptance_by_position,
    error_rate,
    finish_reasons,
    peak_memory_bytes,
    summarise_metric,
)
from specdecode.measurement.pairing import Pairing, pair
from specdecode.measurement.records import Record, to_records
from specdecode.statistics.interval import Interval

METRICS_SCHEMA = "specdecode.metrics/1"
STRATA = ("category", "language", "difficulty")
RATIOS = {
    "speed_ratio": "output_tokens_per_s",
    "tpot_ratio": "tpot_s",
    "ttft_ratio": "ttft_s",
}
"""Name of the ratio, arm / baseline -> its metric. Above 1: faster for speed, else slower."""

Json = dict[str, Any]


def summarise(
    table: pa.Table, baseline_arm: str = "plain", *, seed: int, level: float = 0.95
) -> Json:
    """Every metric of every arm, overall and per stratum, and the arms against the baseline.

    Args:
        table: rows with `RECORD_SCHEMA`; their order does not matter.
        baseline_arm: what the others are compared with.
        seed: of what intervals draw; the same rows and seed give the same document.
        level: two-sided level of all intervals.

    Returns:
        `schema`, `headline`, `rows`, `prompts`, `arms`, `baseline_arm`, `level`, `seed`, `unpaired`
        (per arm: count and the prompts), and `scopes`: a list of {by, value, arms, comparisons}.
        A number without data is null and has n 0.

    Raises:
        EvidenceError: a row is not a record.
    """
    records = sorted(to_records(table), key=lambda record: record.key)
    arms = sorted({r.arm for r in records} | {baseline_arm}, key=lambda a: (a != baseline_arm, a))
    scopes = [
        _scope(by, value, chosen, arms=arms, level=level, seed=seed)
        for by, value, chosen in _partitions(records)
    ]
    unpaired = {
        arm: [
            f"{prompt}/{sampling}" for prompt, sampling in pair(records, arm, baseline_arm).unpaired
        ]
        for arm in arms[1:]
    }
    return {
        "schema": METRICS_SCHEMA,
        "headline": _headline(scopes[0]),
        "rows": len(records),
        "prompts": len({r.prompt_id for r in records}),
        "arms": arms,
        "baseline_arm": baseline_arm,
        "level": level,
        "seed": seed,
        "peak_rss_bytes": peak_memory_bytes(records),
        "unpaired": {arm: {"n": len(keys), "requests": keys} for arm, keys in unpaired.items()},
        "scopes": scopes,
    }


def _partitions(records: Sequence[Record]) -> list[tuple[str, str | None, list[Record]]]:
    """(by, value, rows): everything, each sampling setting, each value of each stratum."""
    parts: list[tuple[str, str | None, list[Record]]] = [("overall", None, list(records))]
    keys = [("sampling", "sampling_name"), *((name, name) for name in STRATA)]
    for by, field in keys:
        parts.extend(
            (by, value, [r for r in records if getattr(r, field) == value])
            for value in sorted({getattr(r, field) for r in records} - {None})
        )
    return parts


def _scope(
    by: str,
    value: str | None,
    records: Sequence[Record],
    *,
    arms: Sequence[str],
    level: float,
    seed: int,
) -> Json:
    tails = by in ("overall", "sampling")  # a tail of a dozen prompts is too rough to resample
    return {
        "by": by,
        "value": value,
        "prompts": len({r.prompt_id for r in records}),
        "arms": {arm: _arm([r for r in records if r.arm == arm], level) for arm in arms},
        "comparisons": {
            arm: _comparison(pair(records, arm, arms[0]), level, seed, tails=tails)
            for arm in arms[1:]
        },
    }


def _arm(records: Sequence[Record], level: float) -> Json:
    metrics: Json = {}
    for name, metric in METRICS.items():
        summary = summarise_metric(metric, records)
        metrics[name] = {
            "n": summary.n,
            "pooled": summary.pooled,
            "request_mean": summary.request_mean,
            **summary.quantiles,
        }
    length = metric_interval(METRICS["mean_acceptance_length"], records, level=level)
    return {
        "requests": len(records),
        "errors": sum(r.error is not None for r in records),
        "error_rate": error_rate(records),
        "finish_reasons": finish_reasons(records),
        "metrics": metrics,
        "mean_acceptance_length_interval": _interval(length),
        "acceptance_by_position": [
            {
                "position": p.position,
                "steps": p.steps,
                "unconditional": p.unconditional,
                "conditional": p.conditional,
            }
            for p in acceptance_by_position(records)
        ],
    }


def _comparison(pairing: Pairing, level: float, seed: int, *, tails: bool) -> Json:
    result: Json = {"pairs": len(pairing.pairs), "unpaired": len(pairing.unpaired)}
    for name, metric in RATIOS.items():
        result[name] = _interval(ratio_interval(METRICS[metric], pairing, level=level))
    result["quality_difference"] = _interval(
        difference_interval(METRICS["quality"], pairing, level=level, seed=seed)
    )
    if tails:
        for name in ("tpot_s", "ttft_s"):
            result[f"{name.removesuffix('_s')}_p95_ratio"] = _interval(
                quantile_ratio_interval(METRICS[name], pairing, 0.95, level=level, seed=seed)
            )
    return result


def _interval(interval: Interval | None) -> Json:
    if interval is None:
        return {"estimate": None, "low": None, "high": None, "n": 0}
    found = interval
    return {"estimate": found.estimate, "low": found.low, "high": found.high, "n": found.n}


def _headline(overall: Json) -> Json:
    """One flat mapping per arm: names and numbers only."""
    headline: Json = {}
    for arm, found in overall["arms"].items():
        metrics = found["metrics"]
        headline[arm] = {
            "requests": found["requests"],
            "errors": found["errors"],
            "output_tokens_per_s": metrics["output_tokens_per_s"]["pooled"],
            "tpot_p95_s": metrics["tpot_s"]["p95"],
            "ttft_p95_s": metrics["ttft_s"]["p95"],
            "mean_acceptance_length": metrics["mean_acceptance_length"]["pooled"],
            "quality": metrics["quality"]["request_mean"],
        }
        if arm in overall["comparisons"]:
            speed = overall["comparisons"][arm]["speed_ratio"]
            headline[arm] |= {
                "speed_ratio": speed["estimate"],
                "speed_ratio_low": speed["low"],
                "speed_ratio_high": speed["high"],
            }
    return headline
