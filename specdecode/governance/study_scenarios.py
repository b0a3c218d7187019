"""The truths under which a plan is studied.

* Identical arms: as fast as the baseline, prompt by prompt alike, exact, as good. An alarm of harm
  is false here. That the gain was not shown is the right answer, so a speed rule that asks for one
  is no alarm.
* Borders: for each primary rule with an interval, a change that misses it by nothing at all, and
  everything else so good that no other rule stands in the way. A GO is false there.
* Sizes: the same borders with fewer and with more prompts, the rule alone. Intervals over prompts
  are right only in the limit, and these tell how far the plan is from it.
* Real effects: gains and harms of some size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specdecode.errors import ConfigError
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.base import IntervalRule, Rule
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio

AUDIT_POWER = 0.90
"""Chance that the audit calls a sampler biased whose law is 5 % in total variation off, at the
tokens it asks for at least; tests/audit/test_power.py holds it to that."""

CLEARLY_FASTER = 1.45
"""A speed ratio that no speed rule of the default plan doubts."""

Group = Literal["identical", "border", "size", "bias", "power"]


@dataclass(frozen=True)
class Scenario:
    """A supposed truth.

    Attributes:
        name: unique in the study.
        group: which question it belongs to.
        changes: fields of the plan's supposed effects, as `suppose` takes them.
        alpha: what the stage may spend on a false GO; None where none is at stake.
        rule: name of the rule at whose border it is, if at any.
        prompts: how many; None takes the plan's number and all its rules, else `rule` is alone.
    """

    name: str
    group: Group
    changes: Mapping[str, Any]
    alpha: float | None = None
    rule: str | None = None
    prompts: int | None = None


def scenarios(plan: Plan) -> list[Scenario]:
    """What is supposed of a plan: identical arms, each border, a biased sampler, real effects.

    Raises:
        ConfigError: the plan has no primary speed rule, about which the study would be.
    """
    view = plan.at(plan.stage)
    effects = plan.power.effects
    speed = next((r for r in view.rules if r.role == "primary" and isinstance(r, SpeedRatio)), None)
    if speed is None:
        raise ConfigError(f"plan {plan.name}: no primary speed_ratio rule, nothing to study")
    arm = speed.arm
    audited = {
        rule.arm: rule.alpha
        for rule in view.rules
        if isinstance(rule, Losslessness) and rule.role != "secondary"
    }
    same = {
        name: {
            "speed_ratio": 1.0,
            "quality_difference": 0.0,
            "error_rate": 0.0,
            "biased": audited.get(name, 0.0),
        }
        for name in effects.arms
    }
    exact = {name: {"biased": 0.0} for name in effects.arms}
    fast = exact | {arm: {"speed_ratio": CLEARLY_FASTER, "biased": 0.0}}
    found = [Scenario("identical arms", "identical", {"arms": same, "prompt_spread": 0.0})]
    for rule in view.rules:
        if rule.role == "primary" and isinstance(rule, SpeedRatio):
            slow = exact | {rule.arm: {"speed_ratio": rule.threshold, "biased": 0.0}}
            found += _border(view, "speed at the border", rule, {"arms": slow, "same_score": 1.0})
        if rule.role == "primary" and isinstance(rule, QualityNonInferiority):
            for differ in (1.2 * rule.margin, 2 * rule.margin):
                worse = fast | {rule.arm: fast[rule.arm] | {"quality_difference": -rule.margin}}
                changes = {"arms": worse, "same_score": round(1 - differ, 9)}
                found += _border(view, f"score at the border ({differ:.0%})", rule, changes)
    biased = fast | {arm: {"speed_ratio": CLEARLY_FASTER, "biased": AUDIT_POWER}}
    found.append(Scenario("biased sampler", "bias", {"arms": biased, "same_score": 1.0}))
    return [*found, *_real_effects(arm)]


def promised(rule: Rule) -> float:
    """Chance of a false alarm that a rule promises where nothing is wrong.

    An error_rate rule looks at the observed rate, so without failures it never fails.
    """
    if isinstance(rule, IntervalRule):
        return round((1 - rule.level) / 2, 12)
    return rule.alpha if isinstance(rule, Losslessness) else 0.0


def is_claim(rule: Rule) -> bool:
    """Whether its failing says that a gain is absent, which no one called harm."""
    return isinstance(rule, SpeedRatio) and rule.role == "primary" and rule.threshold > 1


def _real_effects(arm: str) -> list[Scenario]:
    """Gains and harms of some size, one at a time; all else is as the plan supposes."""

    def power(name: str, **changes: Any) -> Scenario:
        return Scenario(name, "power", changes)

    def of_arm(name: str, **changes: float) -> Scenario:
        return power(name, arms={arm: changes})

    return [
        *(of_arm(f"speed {ratio:g}", speed_ratio=ratio) for ratio in (1.15, 1.2, 1.3, 1.45)),
        *(of_arm(f"score -{drop:g}", quality_difference=-drop) for drop in (0.02, 0.05)),
        *(
            # The plan supposes too few good replies, and too alike ones, for so much to be lost.
            power(
                f"score -{drop:g}",
                arms={arm: {"quality_difference": -drop}},
                quality=0.3,
                same_score=0.75,
            )
            for drop in (0.1, 0.2)
        ),
        *(of_arm(f"errors {rate:.0%}", error_rate=rate) for rate in (0.01, 0.02, 0.05)),
        *(power(f"prompt spread {spread:.0%}", prompt_spread=spread) for spread in (0.3, 0.4)),
    ]


def _border(
    view: Plan, name: str, rule: IntervalRule, changes: Mapping[str, Any]
) -> Iterator[Scenario]:
    alpha = next(stage.alpha for stage in view.stages if stage.name == view.stage)
    yield Scenario(name, "border", changes, alpha, rule.name)
    planned = max(view.prompts_expected.values())
    for prompts in (rule.n_min, 4 * planned):
        if prompts != planned:
            size = f"{name}, {prompts} prompts"
            yield Scenario(size, "size", changes, alpha, rule.name, prompts)
