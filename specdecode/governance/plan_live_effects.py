"""What a plan supposes of its live requests, where a stage of it looks at metrics one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.strict import Share, Strict, Text

_ROUNDING = 1e-9


class Scatter(Strict):
    """How the values of a bounded metric lie among requests."""

    mean: float = Field(description="of all requests, inside the metric's bounds")
    spread: Annotated[float, Field(ge=0)] = Field(description="standard deviation between requests")


class LiveEffect(Strict):
    """The truth about the live requests of one arm, as supposed."""

    error_rate: Share = Field(description="chance that a request fails")
    kept: dict[Text, Share] = Field(
        default_factory=dict,
        description="by indicator metric: share of the successful requests that keep its limit",
    )
    values: dict[Text, Scatter] = Field(
        default_factory=dict,
        description="by bounded metric: mean and spread; acceptance length, token amplification "
        "and quality follow from the other effects where they are not named here",
    )


def check_live_effects(live: dict[str, LiveEffect], metrics: Iterable[PlanMetric]) -> None:
    """Refuses what no request could show.

    Raises:
        ValueError: an unknown metric, one of the other sort, or a mean and spread that values
            inside the metric's bounds cannot have.
    """
    known = {metric.name: metric for metric in metrics}
    for arm, effect in live.items():
        for name in effect.kept:
            if name not in known or known[name].transform != "indicator":
                raise ValueError(
                    f"power: effects: live: {arm}: kept: {name} is no metric of the plan with "
                    "transform: indicator"
                )
        for name, supposed in effect.values.items():
            where = f"power: effects: live: {arm}: values: {name}"
            _check_scatter(where, known.get(name), supposed)


def _check_scatter(where: str, metric: PlanMetric | None, supposed: Scatter) -> None:
    if metric is None or metric.transform == "indicator" or metric.bounds.high is None:
        raise ValueError(f"{where} is no metric of the plan with two bounds; indicators go to kept")
    low, high = metric.bounds.low, metric.bounds.high
    if not low <= supposed.mean <= high:
        raise ValueError(f"{where}: mean {supposed.mean:g} lies outside {low:g} to {high:g}")
    # Largest for values that are either bound (Popoviciu's inequality, with the mean known).
    most = ((supposed.mean - low) * (high - supposed.mean)) ** 0.5
    if supposed.spread > most + _ROUNDING:
        raise ValueError(
            f"{where}: a spread of {supposed.spread:g} around {supposed.mean:g} needs values "
            f"outside {low:g} to {high:g}; {most:g} is the most"
        )
