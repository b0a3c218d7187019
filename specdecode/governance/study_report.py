"""The study of a plan as a document: each rate with its interval, beside what the plan promises.

A false GO may have the chance that the stage may spend, its alpha. An exact level of 1 - 2 alpha
promises that a guardrail alarms at its border with chance alpha. Alarms of several rules add up, at
most (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from specdecode.errors import ConfigError
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan
from specdecode.governance.power_outcome import LEVEL, Chance, Simulation
from specdecode.governance.rules.strata import Strata
from specdecode.governance.study import LETTERS, Outcomes
from specdecode.governance.study_scenarios import Scenario, is_claim, promised
from specdecode.governance.verdict import Status
from specdecode.statistics.binomial import proportion_interval

STUDY_SCHEMA = "specdecode.study/1"


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
        count = outcomes.letters.count(LETTERS[status]) if status in LETTERS else 0
        found = _rate(count, runs)
        chances[status] = Chance(count, found["rate"], found["low"], found["high"])
    prompts = float(max(plan.at(plan.stage).prompts_expected.values()))
    held_by = dict(outcomes.held.most_common())
    return Simulation(plan.stage, runs, seed, prompts, chances, held_by)


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
    judged = [rule for rule in view.rules if rule.role != "secondary" and not is_claim(rule)]
    alarms = [
        {"rule": rule.name, "alpha": promised(rule)} | _rate(outcomes.failed[rule.name], runs)
        for rule in judged
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
            "alpha": round(sum(promised(rule) for rule in judged), 12),
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
            for status, letter in LETTERS.items()
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
