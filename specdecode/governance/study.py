"""How often a plan errs: on identical arms, on changes just harmful enough, and its power.

Four kinds of truth are simulated, each many times, and judged by all the plan's rules.

* Identical arms: as fast as the baseline, prompt by prompt alike, exact, as good. An alarm of harm
  is false here. That the gain was not shown is the right answer, so a speed rule that asks for one
  is no alarm.
* Borders: for each primary rule with an interval, a change that misses it by nothing at all, and
  everything else so good that no other rule stands in the way. A GO is false there.
* Sizes: the same borders with fewer and with more prompts, the rule alone. Intervals over prompts
  are right only in the limit, and these tell how far the plan is from it.
* Real effects: what the plan answers to gains and harms of some size.

An exact level of 1 − 2α promises that a rule passes at its border with chance α, and that a
guardrail alarms there with chance α. Alarms of several rules add up, at most (Bonferroni).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from specdecode.errors import ConfigError
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan
from specdecode.governance.power import LEVEL, Chance, Simulation, suppose
from specdecode.governance.power_rows import simulated_columns
from specdecode.governance.rules.base import IntervalRule, Rule
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio
from specdecode.governance.rules.strata import Strata
from specdecode.governance.study_draws import Draws
from specdecode.governance.study_judge import Cells, judge_run, status_of
from specdecode.governance.verdict import Outcome, RuleResult, Status
from specdecode.statistics.binomial import proportion_interval

STUDY_SCHEMA = "specdecode.study/1"

AUDIT_POWER = 0.90
"""Chance that the audit calls a sampler biased whose law is 5 % in total variation off, at the
tokens it asks for at least; tests/audit/test_power.py holds it to that."""

CLEARLY_FASTER = 1.45
"""A speed ratio that no speed rule of the default plan doubts."""

_LETTERS = {
    Status.GO: "G",
    Status.INCONCLUSIVE: "I",
    Status.NO_GO: "N",
}
Group = Literal["identical", "border", "size", "bias", "power"]


@dataclass(frozen=True)
class Scenario:
    """A supposed truth.

    Attributes:
        name: unique in the study.
        group: which question it belongs to.
        changes: fields of the plan's supposed effects, as `suppose` takes them.
        alpha: what the plan promises about a false GO; None where it promises nothing.
        rule: name of the rule at whose border it is, if at any.
        prompts: how many; None takes the plan's number and all its rules, else `rule` is alone.
    """

    name: str
    group: Group
    changes: Mapping[str, Any]
    alpha: float | None = None
    rule: str | None = None
    prompts: int | None = None


@dataclass(frozen=True)
class Outcomes:
    """What the runs of a scenario came to.

    Attributes:
        letters: one a run, in order: G, I or N, for GO, INCONCLUSIVE and NO_GO.
        alarmed: runs in which a rule other than a claim of speed failed.
        failed: how many runs each rule failed, and each rule (with its stratum).
        held: how many runs each rule did not let pass, whether it failed or was not decided.
        sizes: prompts in each stratum.
    """

    letters: str
    alarmed: int
    failed: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def joined(parts: Iterable[Outcomes]) -> Outcomes:
        """Of consecutive runs, in their order."""
        found = list(parts)
        return Outcomes(
            "".join(part.letters for part in found),
            sum(part.alarmed for part in found),
            sum((part.failed for part in found), Counter()),
            sum((part.held for part in found), Counter()),
            found[0].sizes,
        )


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


def run_scenario(plan: Plan, scenario: Scenario, *, runs: range, seed: int) -> Outcomes:
    """Simulates runs and judges each by all rules with a say.

    Args:
        plan: whose rules judge and whose effects hold where the scenario says nothing.
        scenario: the supposed truth.
        runs: numbers of the runs; a run depends on its number and the seed alone.
        seed: of the study.
    """
    view = suppose(plan, scenario.changes, scenario.name).at(plan.stage)
    profile, planned = max(view.prompts_expected.items(), key=lambda entry: entry[1])
    prompts = scenario.prompts or planned
    if scenario.prompts is not None:
        alone = [rule for rule in view.rules if rule.name == scenario.rule]
        view = view.model_copy(update={"rules": alone})
    draws = Draws(view.bootstrap_seed)
    claims = {rule.name for rule in view.rules if _is_claim(rule)}
    letters, alarmed = [], 0
    failed: Counter[str] = Counter()
    held: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for run in runs:
        rng = np.random.default_rng([seed, run])
        columns = simulated_columns(view, prompts=prompts, profile=profile, rng=rng)
        arms = sorted(view.power.effects.arms.items())
        accused = [name for name, effect in arms if rng.random() < effect.biased]
        entries = judge_run(view, Cells.of(view, columns), accused, draws)
        letters.append(_LETTERS[status_of(entries)])
        failures = _names(e for e in entries if e.outcome is Outcome.FAIL)
        alarmed += bool(failures - claims)
        failed.update(failures)
        held.update(_names(e for e in entries if e.counts and e.outcome is not Outcome.PASS))
        sizes = {f"{e.name} ({e.stratum})": e.n or 0 for e in entries if e.stratum}
    return Outcomes("".join(letters), alarmed, failed, held, sizes)


def report(plan: Plan, found: Sequence[tuple[Scenario, Outcomes]], seed: int) -> dict[str, Any]:
    """The study as a JSON-safe document.

    Args:
        plan: that was studied.
        found: every scenario with its runs.
        seed: of the study.
    """
    view = plan.at(plan.stage)
    identical = next(entry for entry in found if entry[0].group == "identical")
    borders = [_false_go(s, outcomes) for s, outcomes in found if s.group == "border"]
    worst = max(borders, key=lambda case: case["rate"] / case["alpha"])
    numbers = ("rate", "low", "high", "runs", "alpha")
    return {
        "schema": STUDY_SCHEMA,
        "plan": plan.name,
        "plan_sha256": plan_sha256(plan),
        "stage": view.stage,
        "prompts": max(view.prompts_expected.values()),
        "seed": seed,
        "level": LEVEL,
        "false_go": {k: worst[k] for k in numbers} | {"case": worst["name"], "cases": borders},
        "false_alarm": _false_alarm(view, *identical),
        "by_prompts": [_by_prompts(view, s, o) for s, o in found if s.group in ("border", "size")],
        "missed_bias": [
            _described(s, outcomes) | _rate(outcomes.letters.count("G"), len(outcomes.letters))
            for s, outcomes in found
            if s.group == "bias"
        ],
        "power": [_described(s, outcomes) for s, outcomes in found if s.group == "power"],
    }


def simulation(plan: Plan, outcomes: Outcomes, seed: int) -> Simulation:
    """The runs as `power` has them, for its picture."""
    runs = len(outcomes.letters)
    chances = {}
    for status in Status:
        count = outcomes.letters.count(_LETTERS[status]) if status in _LETTERS else 0
        found = _rate(count, runs)
        chances[status] = Chance(count, found["rate"], found["low"], found["high"])
    prompts = float(max(plan.at(plan.stage).prompts_expected.values()))
    held_by = dict(outcomes.held.most_common())
    return Simulation(plan.stage, runs, seed, prompts, chances, held_by)


def promised(rule: Rule) -> float:
    """Chance of a false alarm that a rule promises where nothing is wrong.

    An error_rate rule looks at the observed rate, so without failures it never fails.
    """
    if isinstance(rule, IntervalRule):
        return round((1 - rule.level) / 2, 12)
    return rule.alpha if isinstance(rule, Losslessness) else 0.0


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
    yield Scenario(name, "border", changes, promised(rule), rule.name)
    planned = max(view.prompts_expected.values())
    for prompts in (rule.n_min, 4 * planned):
        if prompts != planned:
            size = f"{name}, {prompts} prompts"
            yield Scenario(size, "size", changes, promised(rule), rule.name, prompts)


def _is_claim(rule: Rule) -> bool:
    """Whether its failing says that a gain is absent, which no one called harm."""
    return isinstance(rule, SpeedRatio) and rule.role == "primary" and rule.threshold > 1


def _names(entries: Iterable[RuleResult]) -> set[str]:
    names: set[str] = set()
    for entry in entries:
        names.add(entry.name)
        if entry.stratum:
            names.add(f"{entry.name} ({entry.stratum})")
    return names


def _false_go(scenario: Scenario, outcomes: Outcomes) -> dict[str, Any]:
    runs = len(outcomes.letters)
    passed = runs - outcomes.held[str(scenario.rule)]
    return (
        _described(scenario, outcomes)
        | _rate(outcomes.letters.count("G"), runs)
        | {"alpha": scenario.alpha, "rule": scenario.rule, "rule_passes": _rate(passed, runs)}
    )


def _false_alarm(view: Plan, scenario: Scenario, outcomes: Outcomes) -> dict[str, Any]:
    runs = len(outcomes.letters)
    alarms = [
        {"rule": rule.name, "alpha": promised(rule)} | _rate(outcomes.failed[rule.name], runs)
        for rule in view.rules
        if rule.role != "secondary" and not _is_claim(rule)
    ]
    strata = [
        {"stratum": name, "prompts": outcomes.sizes[name], "alpha": alpha}
        | _rate(outcomes.failed[name], runs)
        for name, alpha in _strata(view)
    ]
    return (
        _described(scenario, outcomes)
        | _rate(outcomes.alarmed, runs)
        | {
            "alpha": round(sum(float(alarm["alpha"]) for alarm in alarms), 12),
            "alarms": alarms,
            "strata": strata,
        }
    )


def _strata(view: Plan) -> Iterator[tuple[str, float]]:
    """Each stratum of each rule with a say, and its share of what the rule promises."""
    for rule in view.rules:
        if isinstance(rule, Strata) and rule.role != "secondary":
            named = [f"{by}={value}" for by, values in rule.strata.items() for value in values]
            for label in named:
                yield f"{rule.name} ({label})", promised(rule) / len(named)


def _by_prompts(view: Plan, scenario: Scenario, outcomes: Outcomes) -> dict[str, Any]:
    """How often the rule at its border passed, which is a false one."""
    runs = len(outcomes.letters)
    return {
        "name": scenario.name,
        "rule": scenario.rule,
        "prompts": scenario.prompts or max(view.prompts_expected.values()),
        "alpha": scenario.alpha,
    } | _rate(runs - outcomes.held[str(scenario.rule)], runs)


def _described(scenario: Scenario, outcomes: Outcomes) -> dict[str, Any]:
    runs = len(outcomes.letters)
    return {
        "name": scenario.name,
        "effects": dict(scenario.changes),
        "runs": runs,
        "chances": {
            status.value: _rate(outcomes.letters.count(letter), runs)
            for status, letter in _LETTERS.items()
        },
        "failed": dict(sorted((k, v) for k, v in outcomes.failed.items() if not k.endswith(")"))),
        "outcomes": outcomes.letters,
    }


def _rate(count: int, runs: int) -> dict[str, Any]:
    interval = proportion_interval(count, runs, level=LEVEL)
    if interval is None:
        raise ConfigError("runs must be at least 1")
    return {
        "count": count,
        "rate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "runs": runs,
    }
