"""The numbers of one metric, as the stage compares them: alone, in pairs, or of two arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from specdecode.governance.live.bounds import Method
from specdecode.governance.live.findings import (
    Finding,
    Stream,
    of_detector,
    of_one,
    of_two,
)
from specdecode.governance.live.margins import bounds_of, is_rate, scale_of
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.live.scope import Scope
from specdecode.governance.live.units import units_of
from specdecode.governance.live.values import row_values
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_stages import Stage
from specdecode.measurement.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Sample:
    """What was found of a metric, and what had no number.

    Args:
        kind: how it was computed: the method.
        finding: the number so far.
        failed: requests of the candidate that failed.
        empty: its requests (or pairs) that did not, and have no number.
    """

    kind: str
    finding: Finding
    failed: int
    empty: int


def kind_of(stage: Stage, metric: PlanMetric) -> str:
    """The method that judges a metric.

    The beta-binomial mixture is for independent values of 0 or 1, so it judges rates of requests;
    whatever else such a stage watches is judged by betting.
    """
    if stage.method != "beta-binomial":
        return stage.method
    paired = stage.name == "shadow" and metric.transform == "difference"
    inside = metric.transform == "difference" or 0 < (metric.margin or 0.0) < 1
    rate = is_rate(metric) and stage.unit == "request" and not paired and inside
    return "beta-binomial" if rate else "betting"


def sample_of(stage: Stage, metric: PlanMetric, scope: Scope, alpha: float) -> Sample:
    """Judges one metric of the rows in scope.

    Args:
        stage: shadow pairs the arms, a canary compares two, watch has one.
        metric: with a margin and bounds.
        scope: rows that count.
        alpha: chance of a wrong decision on either side; of an e-detector, 1 / run length.

    Raises:
        EvidenceError: a value lies outside the metric's bounds.
    """
    kind, scale = kind_of(stage, metric), scale_of(metric)
    method = cast("Method", kind)  # but for an e-detector, which has a branch of its own
    values = row_values(metric, scope.arm)
    failed, empty = int(scope.arm.failed.sum()), int((np.isnan(values) & ~scope.arm.failed).sum())
    if metric.transform != "difference":
        own = _stream(stage, scope.arm.time, scope.arm.prompts, values, scope.now).values
        if kind == "e-detector":
            finding = of_detector(own, scale, 1 / alpha, stage.n_min)
        else:
            finding = of_one(method, own, scale, alpha, stage.n_min)
        return Sample(kind, finding, failed, empty)
    others = row_values(metric, scope.baseline)
    if stage.name == "shadow":
        arm, base, time = _paired(scope.arm, scope.baseline)
        differences = values[arm] - others[base]
        own = _stream(stage, time, scope.arm.prompts[arm], differences, scope.now).values
        empty = int((np.isnan(differences) & ~scope.arm.failed[arm]).sum())
        finding = of_one(method, own, scale, alpha, stage.n_min)
        return Sample(kind, finding, failed, empty)
    ours = _stream(stage, scope.arm.time, scope.arm.prompts, values, scope.now)
    theirs = _stream(stage, scope.baseline.time, scope.baseline.prompts, others, scope.now)
    finding = of_two(method, ours, theirs, bounds_of(metric), scale, alpha, stage.n_min)
    return Sample(kind, finding, failed, empty)


def _stream(
    stage: Stage,
    time: IntArray,
    prompts: np.ndarray[tuple[int], np.dtype[np.object_]],
    values: FloatArray,
    now: int,
) -> Stream:
    """Units that have a value, in order."""
    units = units_of(stage.unit, time, prompts, now=now)
    means, places = units.means(values)
    return Stream(means, units.time[places])


def _paired(arm: LiveRows, baseline: LiveRows) -> tuple[IntArray, IntArray, IntArray]:
    """Places of the rows of both arms that answer one request, and when the later one began.

    A pair is known once both rows are there, so the later start orders it.
    """
    where = {key: place for place, key in enumerate(_keys(baseline))}
    found = [(i, where[key]) for i, key in enumerate(_keys(arm)) if key in where]
    if not found:
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    own, other = np.array(found, dtype=np.int64).T
    time = np.maximum(arm.time[own], baseline.time[other])
    order = np.argsort(time, kind="stable")  # ties stay in the order of the arm's rows
    return own[order], other[order], time[order]


def _keys(rows: LiveRows) -> list[tuple[str, str]]:
    return list(zip(rows.prompts.tolist(), rows.texts["sampling"].tolist(), strict=True))
