"""A metric's value of each request, and which rows lack a number it needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specdecode.errors import EvidenceError
from specdecode.governance.live.margins import ERROR_RATE, bounds_of, is_rate
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.measurement.arrays import BoolArray, FloatArray
from specdecode.measurement.metrics import METRICS

_NEEDED: dict[str, tuple[str, ...]] = {
    "ttft_s": ("ttft_s",),
    "tpot_s": ("ttft_s", "e2e_s", "output_tokens"),
    "e2e_s": ("e2e_s",),
    "output_tokens_per_s": ("output_tokens", "e2e_s"),
    "output_tokens": ("output_tokens",),
    "mean_acceptance_length": ("steps", "accepted"),
    "acceptance_rate": ("drafted", "accepted"),
    "output_tokens_per_step": ("output_tokens", "steps"),
    "target_tokens_per_output_token": ("target_tokens", "output_tokens"),
    "draft_share": ("draft_s", "e2e_s"),
    "verify_share": ("verify_s", "e2e_s"),
    "other_share": ("other_s", "e2e_s"),
    "quality": (),  # null for prompts without a checker, which is no gap
    ERROR_RATE: (),
}
"""Columns without which a successful request cannot have the metric."""

_OF_STEPS = {"steps", "drafted", "accepted"}
"""Columns that count what was drafted."""


def row_values(metric: PlanMetric, rows: LiveRows) -> FloatArray:
    """The metric's value of each request, float [n]; NaN where it has none.

    A failed request is a failure in `error_rate`, outside the limit of an indicator (so a 0), and
    has no value otherwise. A missing number is never a value.

    Raises:
        EvidenceError: a value lies outside the bounds that the plan declares. It is not clipped:
            what rests on bounds would no longer hold.
    """
    if metric.name == ERROR_RATE:
        return rows.failed.astype(np.float64)
    definition = METRICS[metric.name]
    top, bottom, there = definition.columns(rows)
    there = there & ~rows.failed
    values = np.full(len(rows), np.nan)
    values[there] = top[there] / bottom[there]
    if is_rate(metric):
        limit = float(metric.limit or 0.0)
        kept = values >= limit if definition.better == "higher" else values <= limit
        values = np.where(there, kept.astype(np.float64), np.nan)
        values[rows.failed] = 0.0
        return values
    low, high = bounds_of(metric)
    outside = np.flatnonzero((values < low) | (values > high))
    if len(outside):
        row = int(outside[0])
        raise EvidenceError(
            f"{metric.name} of request {rows.ids[row]} is {values[row]:g}, outside the bounds "
            f"{low:g} to {high:g} that the plan declares"
        )
    return values


def lacking(metrics: Sequence[PlanMetric], rows: LiveRows, candidate: str) -> BoolArray:
    """Successful requests without a number that a metric with a say needs of them, [n].

    Of arms other than the candidate only what is compared is needed: a plainly decoding engine does
    not count its steps. A reply that ended before anything was drafted has no steps to count: there
    nothing is missing.
    """
    own, compared = (
        {
            column
            for metric in metrics
            if metric.role != "secondary" and metric.transform in transforms
            for column in _NEEDED.get(metric.name, ())
        }
        for transforms in (("none", "indicator", "difference"), ("difference",))
    )
    judged = np.asarray(rows.texts["arm"] == candidate, dtype=np.bool_)
    drafted = ~_undrafted(rows)
    found = np.zeros(len(rows), dtype=np.bool_)
    for needed, whose in ((own, judged), (compared, ~judged)):
        for name in needed:
            owed = whose & drafted if name in _OF_STEPS else whose
            found |= owed & np.isnan(rows.numbers[name])
    return found & ~rows.failed


def _undrafted(rows: LiveRows) -> BoolArray:
    """Replies without a draft step, [n]: counted as such, or over with their first token."""
    steps = rows.numbers["steps"]
    alone = np.isnan(steps) & (rows.numbers["output_tokens"] == 1)
    return np.asarray((steps == 0) | alone, dtype=np.bool_)
