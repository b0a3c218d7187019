"""Simulated runs of a plan under one supposed truth, each judged by all its rules.

`study_scenarios` says what is supposed, `study_report` what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from specdecode.governance.plan_schema import Plan
from specdecode.governance.power import suppose
from specdecode.governance.power_rows import simulated_columns
from specdecode.governance.study_draws import Draws
from specdecode.governance.study_judge import Cells, judge_run, status_of
from specdecode.governance.study_scenarios import Scenario, is_claim
from specdecode.governance.verdict import Outcome, RuleResult, Status

LETTERS = {
    Status.GO: "G",
    Status.INCONCLUSIVE: "I",
    Status.NO_GO: "N",
}


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
    claims = {rule.name for rule in view.rules if is_claim(rule)}
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
        letters.append(LETTERS[status_of(entries)])
        failures = _names(e for e in entries if e.outcome is Outcome.FAIL)
        alarmed += bool(failures - claims)
        failed.update(failures)
        held.update(_names(e for e in entries if e.counts and e.outcome is not Outcome.PASS))
        sizes = {f"{e.name} ({e.stratum})": e.n or 0 for e in entries if e.stratum}
    return Outcomes("".join(letters), alarmed, failed, held, sizes)


def _names(entries: Iterable[RuleResult]) -> set[str]:
    names: set[str] = set()
    for entry in entries:
        names.add(entry.name)
        if entry.stratum:
            names.add(f"{entry.name} ({entry.stratum})")
    return names
