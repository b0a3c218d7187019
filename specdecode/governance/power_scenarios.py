"""Truths to hold beside the one a plan supposes: no effect at all, and harm.

* No effect: every arm is like the baseline, in speed, score, failures and live requests. Tokens a
  step stay what they were, since an arm that drafts cannot be without them.
* Harm to a metric: candidates lie as far beyond its margin as the plan supposes them to lie within
  it, offline and live. What is clearly good is then clearly bad, and what is barely good barely
  bad. All else stays as supposed, so that one sees what finds this harm, and how soon.
"""

from __future__ import annotations

from typing import Any

from specdecode.errors import ConfigError
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.acceptance_length import AcceptanceLength
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio

_METRIC_OF = {
    "speed_ratio": "output_tokens_per_s",
    "quality_non_inferiority": "quality",
    "error_rate": "error_rate",
    "acceptance_length": "mean_acceptance_length",
}
"""Metrics, by the kind of rule that decides by them, of which an effect of its own is supposed."""


def no_effect(plan: Plan) -> dict[str, Any]:
    """Fields of `power.effects`, as `suppose` takes them, under which nothing was changed."""
    same = {"speed_ratio": 1.0, "quality_difference": 0.0, "error_rate": 0.0}
    changes: dict[str, Any] = {
        "arms": {name: dict(same) for name in plan.power.effects.arms},
        "prompt_spread": 0.0,
    }
    if plan.power.effects.live is not None:
        live = {name: effect.model_dump() for name, effect in plan.power.effects.live.items()}
        base = live.pop(plan.baseline)
        against = {m.name for m in plan.metrics if m.transform in ("ratio", "difference")}
        for effect in live.values():
            own = {k: v for k, v in effect["values"].items() if k not in against}
            shared = {k: v for k, v in base["values"].items() if k in against}
            effect |= {"error_rate": base["error_rate"], "kept": base["kept"]}
            effect["values"] = own | shared
        changes["live"] = live
    return changes


def harm(plan: Plan, metric: str) -> dict[str, Any]:
    """Fields of `power.effects`, as `suppose` takes them, under which a metric is harmed.

    Args:
        plan: that supposes something of the metric.
        metric: its name.

    Raises:
        ConfigError: the plan has no such metric, or supposes nothing of it that could be mirrored;
            names those it does.
    """
    whole = plan.whole
    able = [found.name for found in whole.metrics if _changes(whole, found)]
    if metric not in able:
        raise ConfigError(
            f"plan {plan.name}: harm to {metric} cannot be supposed: give one of {', '.join(able)}"
        )
    return _changes(whole, next(found for found in whole.metrics if found.name == metric))


def _changes(plan: Plan, metric: PlanMetric) -> dict[str, Any]:
    """Empty where nothing is supposed of the metric."""
    effects = plan.power.effects
    arms = {name: _worse(plan, name, metric.name) for name in plan.candidates}
    live = {}
    if effects.live is not None and metric.margin is not None:
        live = {name: _worse_live(plan, name, metric) for name in plan.candidates}
    changes: dict[str, Any] = {}
    if arms := {name: worse for name, worse in arms.items() if worse}:
        changes["arms"] = arms
        lost = max(-worse.get("quality_difference", 0.0) for worse in arms.values())
        if lost > 1 - effects.same_score:
            changes["same_score"] = round(1 - lost, 9)
    if live := {name: worse for name, worse in live.items() if worse}:
        changes["live"] = live
    return changes


def _worse(plan: Plan, arm: str, metric: str) -> dict[str, float]:
    """Effects of an arm, mirrored at the thresholds of the rules that decide by the metric."""
    effects = plan.power.effects
    supposed = effects.arms[arm]
    found: dict[str, float] = {}
    for rule in plan.rules:
        if rule.arm != arm or rule.role == "secondary" or _METRIC_OF.get(rule.kind) != metric:
            continue
        if isinstance(rule, SpeedRatio):
            found["speed_ratio"] = rule.threshold**2 / supposed.speed_ratio
        elif isinstance(rule, QualityNonInferiority):
            # No more can be lost than the baseline has.
            worse = max(-2 * rule.margin - supposed.quality_difference, -effects.quality)
            found["quality_difference"] = round(worse, 9)
        elif isinstance(rule, ErrorRate):
            found["error_rate"] = _clipped(2 * rule.max_rate - supposed.error_rate, 0, 1)
        elif isinstance(rule, AcceptanceLength):
            found["acceptance_length"] = max(1.0, 2 * rule.threshold - supposed.acceptance_length)
    return found


def _worse_live(plan: Plan, arm: str, metric: PlanMetric) -> dict[str, Any]:
    """Live effects of an arm, mirrored at the metric's margin."""
    live = plan.power.effects.live or {}
    own, base, name = live[arm], live[plan.baseline], metric.name
    if name == "error_rate":
        return {name: _mirrored(metric, own.error_rate, base.error_rate, 0, 1)}
    if name in own.kept:
        return {"kept": own.kept | {name: _mirrored(metric, own.kept[name], 0.0, 0, 1)}}
    if name not in own.values or metric.bounds.high is None:
        return {}
    low, high = metric.bounds.low, metric.bounds.high
    beside = base.values[name].mean if name in base.values else 0.0
    mean = _mirrored(metric, own.values[name].mean, beside, low, high)
    most = ((mean - low) * (high - mean)) ** 0.5
    value = {"mean": mean, "spread": min(own.values[name].spread, most)}
    return {"values": {k: v.model_dump() for k, v in own.values.items()} | {name: value}}


def _mirrored(metric: PlanMetric, own: float, base: float, low: float, high: float) -> float:
    """The value as far on the other side of the metric's margin."""
    margin = metric.margin or 0.0
    worse = -1 if metric.direction == "higher" else 1
    if metric.transform == "difference":
        border = base + worse * margin
    elif metric.transform == "ratio":
        border = base * (1 + worse * margin)
    else:
        border = margin
    return _clipped(2 * border - own, low, high)


def _clipped(value: float, low: float, high: float) -> float:
    return round(min(max(value, low), high), 9)
