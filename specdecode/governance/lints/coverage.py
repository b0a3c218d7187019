"""What teams turn speculation down for, and this plan would not notice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specdecode.governance.lints.base import Lint
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.base import Rule
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.strata import Strata
from specdecode.governance.rules.tail_latency import TailLatency

_TOOLS = re.compile(r"tool|function", re.IGNORECASE)
_STRUCTURED = re.compile(r"json|struct|schema|grammar|xml", re.IGNORECASE)


def _candidates(plan: Plan) -> Iterator[tuple[str, list[Rule]]]:
    """Each candidate with the rules that have a say on it."""
    for arm in plan.arms:
        if arm.role == "candidate":
            yield (
                arm.name,
                [rule for rule in plan.rules if rule.arm == arm.name and rule.role != "secondary"],
            )


def _no_tail_guardrail(plan: Plan) -> Iterator[str]:
    for arm, rules in _candidates(plan):
        if not any(isinstance(rule, TailLatency) for rule in rules):
            yield f"no rule watches the slow requests of {arm}"


def _no_quality_guardrail(plan: Plan) -> Iterator[str]:
    for arm, rules in _candidates(plan):
        if not any(
            isinstance(rule, QualityNonInferiority)
            or (isinstance(rule, Strata) and rule.measure == "quality_difference")
            for rule in rules
        ):
            yield f"no rule watches the quality of replies of {arm}"


def _without_stratum(plan: Plan, value: re.Pattern[str]) -> Iterator[str]:
    for arm, rules in _candidates(plan):
        named = [
            name
            for rule in rules
            if isinstance(rule, Strata)
            for values in rule.strata.values()
            for name in values
        ]
        if not any(value.search(name) for name in named):
            yield arm


def _no_tool_stratum(plan: Plan) -> Iterator[str]:
    if "tool_calls" in plan.traffic.contains:
        for arm in _without_stratum(plan, _TOOLS):
            yield f"the traffic has tool calls, and no stratum of {arm} is about them"


def _no_structured_stratum(plan: Plan) -> Iterator[str]:
    if "structured_output" in plan.traffic.contains:
        for arm in _without_stratum(plan, _STRUCTURED):
            yield f"the traffic has structured output, and no stratum of {arm} is about it"


LINTS = (
    Lint(
        "no-tail-guardrail",
        "error",
        _no_tail_guardrail,
        "add a tail_latency rule as guardrail: a faster mean may hide slower slow requests",
    ),
    Lint(
        "no-quality-guardrail",
        "error",
        _no_quality_guardrail,
        "add a quality_non_inferiority rule: losslessness is of the audited replies only",
    ),
    Lint(
        "no-tool-stratum",
        "error",
        _no_tool_stratum,
        "add a strata rule over prompts with tool calls; engine metrics do not show broken ones",
    ),
    Lint(
        "no-structured-stratum",
        "error",
        _no_structured_stratum,
        "add a strata rule over prompts with structured output",
    ),
)
