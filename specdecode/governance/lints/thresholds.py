"""Numbers nobody justified, and numbers nobody answers for."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.governance.lints.base import Lint
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.acceptance_length import AcceptanceLength
from specdecode.governance.rules.base import Rule
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio
from specdecode.governance.rules.tail_latency import TailLatency
from specdecode.governance.rules.token_amplification import TokenAmplification

_SHORTEST_REASON = 20
_PLACEHOLDERS = ("todo", "tbd", "fixme", "xxx", "???", "…")


def decides_by(rule: Rule) -> tuple[str, float] | None:
    """Metric of a rule, and the margin in the metrics table that its threshold stands for."""
    match rule:
        case SpeedRatio(threshold=asked):
            found = ("output_tokens_per_s", 1 - asked)
        case QualityNonInferiority(margin=asked):
            found = ("quality", asked)
        case ErrorRate(max_rate=asked):
            found = ("error_rate", asked)
        case TailLatency(metric=metric, threshold=asked):
            found = (metric, asked - 1)
        case AcceptanceLength(threshold=asked):
            found = ("mean_acceptance_length", asked)
        case TokenAmplification(threshold=asked):
            found = ("target_tokens_per_output_token", asked)
        case _:  # losslessness, strata and gains between arms have no line of their own
            return None
    return found


def _deciding(plan: Plan) -> Iterator[tuple[Rule, str, float]]:
    for rule in plan.rules:
        if rule.role != "secondary" and (found := decides_by(rule)) is not None:
            yield (rule, *found)


def _metric_without_margin(plan: Plan) -> Iterator[str]:
    for metric in plan.metrics:
        if metric.role != "secondary" and metric.margin is None:
            yield f"metric {metric.name} is a {metric.role} and has no margin"


def _margin_differs(plan: Plan) -> Iterator[str]:
    margins = {metric.name: metric.margin for metric in plan.metrics}
    for rule, name, asked in _deciding(plan):
        margin = margins.get(name)
        if margin is not None and abs(margin - asked) > 1e-9:
            yield f"{rule.name} decides {name} by a margin of {asked:.4g}, its metric says {margin}"


def _rule_without_metric(plan: Plan) -> Iterator[str]:
    named = {metric.name for metric in plan.metrics}
    for rule, name, _ in _deciding(plan):
        if name not in named:
            yield f"{rule.name} decides by {name}, which the metrics do not list"


def _threshold_without_why(plan: Plan) -> Iterator[str]:
    for rule in plan.rules:
        reason = rule.why.strip().lower()
        if len(reason) < _SHORTEST_REASON or reason.startswith(_PLACEHOLDERS):
            yield f"{rule.name}: '{rule.why}' is no reason for a threshold"


def _metric_without_owner(plan: Plan) -> Iterator[str]:
    return (f"metric {metric.name} has no owner" for metric in plan.metrics if metric.owner is None)


LINTS = (
    Lint(
        "metric-without-margin",
        "error",
        _metric_without_margin,
        "say how far it may move before that counts as harm",
    ),
    Lint("margin-differs", "error", _margin_differs, "make the two numbers one"),
    Lint("rule-without-metric", "warning", _rule_without_metric, "add it, with an owner"),
    Lint(
        "threshold-without-why",
        "error",
        _threshold_without_why,
        "say what the number would be used for, before any measurement",
    ),
    Lint(
        "metric-without-owner",
        "error",
        _metric_without_owner,
        "name who acts when it moves, or leave the metric out",
    ),
)
