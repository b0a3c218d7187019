"""What a live stage's simulation needs of a plan's supposed effects, and what it cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdecode.errors import ConfigError
from specdecode.governance.live.margins import ERROR_RATE
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_schema import Plan
from specdecode.governance.power_streams import INSIDE, OFFLINE, OUTSIDE, PARTS, TIMES


def check_needs(view: Plan, metrics: Sequence[PlanMetric], arms: Sequence[str]) -> None:
    """Refuses to simulate a stage whose requests cannot be made up.

    Args:
        view: the plan at the stage.
        metrics: those that the stage judges.
        arms: those whose requests it reads.

    Raises:
        ConfigError: the supposed effects lack something, or say it of numbers that are tied to each
            other; names the field or the metrics.
    """
    for problem in _problems(view, metrics, arms):
        raise ConfigError(f"plan {view.name}: {view.stage} cannot be simulated: {problem}")


def _problems(view: Plan, metrics: Sequence[PlanMetric], arms: Sequence[str]) -> Iterator[str]:
    live, field = view.power.effects.live, "power.effects.live"
    if live is None:
        yield (
            f"{field} is null; say of each arm its error_rate, of each indicator the share of "
            "requests that keeps its limit (kept), of other bounded metrics mean and spread "
            "(values)"
        )
        return
    for metric in metrics:
        if metric.name == ERROR_RATE:
            continue
        if not _known(metric):
            yield f"requests are not made up for {metric.name} with transform {metric.transform}"
            return
        for arm in arms:
            if metric.transform == "indicator":
                if metric.name not in live[arm].kept:
                    yield f"{field}.{arm}.kept.{metric.name} is missing, a share of its requests"
            elif arm == view.baseline and metric.transform != "difference":
                continue  # judged of the candidate alone
            elif metric.name not in OFFLINE and metric.name not in live[arm].values:
                yield f"{field}.{arm}.values.{metric.name} is missing, its mean and spread"
    yield from _clashes({m.name: m.limit for m in metrics if m.limit is not None})


def _known(metric: PlanMetric) -> bool:
    if metric.transform == "indicator":
        return metric.name in TIMES
    return metric.name in OFFLINE or metric.name in PARTS


def _clashes(limits: dict[str, float]) -> Iterator[str]:
    """Numbers of one request are tied to each other, so not all limits can be missed freely."""
    if "output_tokens_per_s" in limits and {"e2e_s", "tpot_s"} & set(limits):
        yield "output_tokens_per_s follows from e2e_s and tpot_s; take one of them as an indicator"
    first, whole = limits.get("ttft_s", 0.0) * OUTSIDE[1], limits.get("e2e_s")
    if whole is not None and first > whole * INSIDE[0]:
        yield (
            f"a limit of ttft_s above {INSIDE[0] / OUTSIDE[1]:.2f} of that of e2e_s, so that a "
            "late first token would be later than a timely reply"
        )
