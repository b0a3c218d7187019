"""Can a stage that is looked at again and again be judged by its metrics at all?

Told before there are any rows: by `plan check`, and by `Plan.at`, which gives no view otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from specdecode.governance.live.margins import ERROR_RATE, is_rate, scale_of
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_stages import Stage
from specdecode.measurement.metrics import METRICS

Code = Literal["no-alarm-alpha", "not-in-rows", "unbounded-metric", "not-judgeable"]

_INDICATOR = "make it an indicator with a limit, which is a rate and bounded"


def problems(
    stage: Stage, metrics: Sequence[PlanMetric], candidates: Sequence[str]
) -> Iterator[tuple[Code, str]]:
    """What keeps the stage from being judged, as a lint's code and a sentence.

    Args:
        stage: with a sequential method.
        metrics: those it names.
        candidates: arms to be released.
    """
    if not stage.live:
        yield "not-judgeable", f"only live stages are judged look by look, {stage.name} is none"
        return
    if stage.alarm_alpha is None:
        yield (
            "no-alarm-alpha",
            "it needs an alarm_alpha, the chance of a false alarm that its alarms share",
        )
    if len(candidates) != 1:
        yield "not-judgeable", f"it judges one candidate, not {', '.join(candidates)}"
    yield from (("not-judgeable", text) for text in _method(stage))
    for metric in metrics:
        if metric.role != "secondary" or metric.margin is not None:
            yield from _metric(stage, metric)


def _method(stage: Stage) -> Iterator[str]:
    if stage.method == "quantile":
        yield "a margin of a mean is no quantile: take betting, and indicators with a limit"
    if stage.method == "group-sequential":
        yield "group-sequential looks at moments fixed before, which a plan does not state yet"
    if stage.method == "e-detector" and stage.name != "watch":
        yield "an e-detector raises alarms and shows nothing: it is for the stage watch"
    if stage.steps is not None and stage.steps[-1] >= 1:
        yield "a step of 1 leaves no baseline to compare with: that is the stage watch"


def _metric(stage: Stage, metric: PlanMetric) -> Iterator[tuple[Code, str]]:
    name = metric.name
    known = METRICS.get(name)
    if known is None and name != ERROR_RATE:
        yield (
            "not-in-rows",
            f"no row of a request shows {name}: measure it in a stage that looks once",
        )
        return
    if metric.transform == "ratio":
        yield "unbounded-metric", f"{name} is a ratio, whose bounds nobody knows: {_INDICATOR}"
        return
    if not is_rate(metric) and metric.bounds.high is None:
        yield (
            "unbounded-metric",
            f"{name} has no bounds known in advance: give low and high, or {_INDICATOR}",
        )
        return
    if metric.transform == "indicator" and name == ERROR_RATE:
        yield "not-judgeable", f"{name} is a rate already: transform: none"
    elif metric.transform == "indicator" and (known is None or known.better == "neither"):
        yield "not-judgeable", f"nobody knows which side of its limit is the good one for {name}"
    if metric.transform == "indicator" and metric.direction != "higher":
        yield "not-judgeable", f"{name}: more requests within the limit are better: higher"
    if metric.transform == "difference" and stage.name == "watch":
        yield "not-judgeable", f"{name} is compared with a baseline, and watch has none"
    try:
        scale = scale_of(metric)
    except ValueError as error:
        yield "not-judgeable", str(error)
    else:
        inside = scale.low < scale.threshold < scale.high
        if stage.method == "e-detector" and not inside:
            yield "not-judgeable", f"{name}: an e-detector needs a margin inside the bounds"
