"""Stages too short for what they are to show, by the usual formula for paired means.

    n = (z_{1-alpha} + z_power)^2 sd^2 / distance^2

with the distance from the supposed effect to the threshold, both of log speed ratios or of mean
scores over prompts. It is a lower bound for methods that may look again. `specdecode plan power`
simulates what this only estimates.

Source: S.-C. Chow, J. Shao and H. Wang, "Sample Size Calculations in Clinical Research", ch. 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from specdecode.governance.lints.base import Lint
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import Stage
from specdecode.governance.rules.base import IntervalRule, Rule
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio
from specdecode.governance.rules.strata import Strata


def prompts_needed(plan: Plan, rule: Rule) -> float | None:
    """Prompts for the plan's power by this primary rule alone.

    None for kinds without a formula, infinity where the supposed effect is on the wrong side.
    """
    effects = plan.power.effects
    if rule.role != "primary" or not isinstance(rule, SpeedRatio | QualityNonInferiority):
        return None
    settings = 1 if rule.sampling else len(plan.sampling)
    if isinstance(rule, SpeedRatio):
        distance = math.log(effects.arms[rule.arm].speed_ratio / rule.threshold)
        variance = effects.prompt_spread**2 + 2 * effects.request_spread**2 / settings
        share = 1.0
    else:
        shift = effects.arms[rule.arm].quality_difference
        distance = rule.margin + shift
        variance = (sum(effects.score_changes(rule.arm)) - shift**2) / settings
        share = effects.checked
    if distance <= 0 or share == 0:
        return math.inf
    z = NormalDist().inv_cdf
    return (z((1 + rule.level) / 2) + z(plan.power.wanted)) ** 2 * variance / distance**2 / share


def _too_few(plan: Plan) -> Iterator[str]:
    for stage, n_max, rule in _judged(plan):
        needed = prompts_needed(plan, rule)
        if needed is None or needed <= n_max:
            continue
        where = f"{stage.name}: {rule.name}"
        if math.isinf(needed):
            yield f"{where}: the supposed effect of {rule.arm} does not reach the threshold"
        else:
            yield (
                f"{where}: a chance of {plan.power.wanted:.0%} needs about {math.ceil(needed)} "
                f"prompts, n_max is {n_max}"
            )


def _out_of_reach(plan: Plan) -> Iterator[str]:
    for stage, n_max, rule in _judged(plan):
        for what, most, needed in _counts(plan, rule, n_max):
            if most < needed:
                yield (
                    f"{stage.name}: {rule.name} waits for {needed} {what}, and {n_max} prompts "
                    f"give about {math.floor(most)}"
                )


def _longer_than_allowed(plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        if stage.sequential:  # which no number of prompts makes complete
            continue
        expected = stage.prompts_expected or plan.prompts_expected
        profile, most = max(expected.items(), key=lambda entry: entry[1])
        if stage.n_max is not None and stage.unit == "prompt" and most > stage.n_max:
            yield (
                f"{stage.name}: a complete {profile} run has {most} prompts, n_max is {stage.n_max}"
            )


def _judged(plan: Plan) -> Iterator[tuple[Stage, int, Rule]]:
    for stage in plan.stages:
        if stage.n_max is not None and stage.unit == "prompt":
            for rule in plan.rules_of(stage):
                if rule.role != "secondary":
                    yield stage, stage.n_max, rule


def _counts(plan: Plan, rule: Rule, n_max: int) -> Iterator[tuple[str, float, int]]:
    """What the rule counts, how much of it n_max prompts give, how much it waits for."""
    effects = plan.power.effects
    if isinstance(rule, ErrorRate):
        yield "requests", n_max * len(plan.sampling), rule.n_min
    elif isinstance(rule, QualityNonInferiority):
        yield "prompts with a checker", n_max * effects.checked, rule.n_min
    elif isinstance(rule, Strata):
        if rule.insufficient == "inconclusive":
            for by, values in rule.strata.items():
                for value in values:
                    share = _share(plan, by, value)
                    yield f"prompts of {by} {value}", n_max * share, rule.n_min
    elif isinstance(rule, IntervalRule):
        yield "prompts", n_max, rule.n_min


def _share(plan: Plan, by: str, value: str) -> float:
    if by == "sampling":
        return 1.0  # every prompt is decoded under every setting
    supposed = plan.power.effects.shares.get(by)
    if supposed is not None:
        return supposed.get(value, 0.0)
    return 1 / len(plan.stratum_values(by))


LINTS = (
    Lint(
        "longer-than-n-max",
        "error",
        _longer_than_allowed,
        "make n_max what a complete run has",
    ),
    Lint(
        "n-max-too-small",
        "error",
        _too_few,
        "allow more prompts, ask for a larger effect, or say what makes the effect likely",
    ),
    Lint(
        "n-min-out-of-reach",
        "error",
        _out_of_reach,
        "raise n_max or lower n_min: as it is, the answer can only be INCONCLUSIVE",
    ),
)
