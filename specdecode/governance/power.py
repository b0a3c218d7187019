"""How often a plan would answer what, were its supposed effects true.

A stage that looks once is simulated here: each run makes the rows of one complete stage, which are
judged by the plan's own rules (`study_judge`, whose entries a test compares with those of
`decide`). Two things are done otherwise. Rules that only report are left out: they change no
answer. The audit's word is drawn by the chance that the effects state (`biased`), since it reads
tokens and no rows; its control is taken to pass.

Stages that look again and again are simulated by `power_live`, and the way through all of them by
`power_ladder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from specdecode.errors import ConfigError
from specdecode.governance.plan import parse_plan
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import LADDER
from specdecode.governance.power_live import live_runs
from specdecode.governance.power_outcome import Ended, Simulation
from specdecode.governance.power_rows import simulated_columns
from specdecode.governance.study_draws import Draws
from specdecode.governance.study_judge import Cells, judge_run, status_of
from specdecode.governance.verdict import Outcome


def suppose(plan: Plan, changes: Mapping[str, Any], where: str = "effects") -> Plan:
    """The plan with other supposed effects; its rules stay as they are.

    Args:
        plan: whose effects hold wherever `changes` says nothing.
        changes: fields of `power.effects`; those of an arm, and of `live` of an arm, may be given
            one by one.
        where: for messages.

    Raises:
        ConfigError: there is no such field or arm, or a value is impossible.
    """
    document = plan.whole.model_dump(by_alias=True)
    effects = document["power"]["effects"]
    for field in ("arms", "live"):
        own, given = effects.get(field), changes.get(field)
        if given is None or own is None:  # what was null is given as a whole
            continue
        if not isinstance(given, Mapping):
            raise ConfigError(f"{where}: {field}: expected {{arm: {{field: value}}}}")
        for name, fields in given.items():
            if name not in own or not isinstance(fields, Mapping):
                known = ", ".join(own)
                raise ConfigError(f"{where}: {field}: {name}: expected fields of one of {known}")
            own[name] |= fields
        effects[field] = own
        changes = {key: value for key, value in changes.items() if key != field}
    document["power"]["effects"] = effects | changes
    return parse_plan(document, where)


def simulate(
    plan: Plan,
    *,
    stage: str | None = None,
    runs: int = 200,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
) -> Simulation:
    """Simulates complete runs of one stage and decides each.

    Args:
        plan: with the effects that are supposed.
        stage: which; None takes the plan's own.
        runs: how many; the interval of a chance is about ±1/sqrt(runs) wide at worst.
        seed: the same seed gives the same answer. The runs of each stage are independent of those
            of any other.
        progress: called after each run.

    Raises:
        ConfigError: no such stage, a live one without an effect that it needs, or fewer than one
            run.
    """
    view = plan.at(stage or plan.stage)
    found = next(entry for entry in view.stages if entry.name == view.stage)
    if runs < 1:
        raise ConfigError(f"runs must be at least 1, not {runs}")
    if found.sequential:
        one, most = live_runs(view)
    else:
        one, most = _fixed_runs(view), None
    ends = []
    for run in range(runs):
        ends.append(one(np.random.default_rng([seed, run, LADDER.index(found.name)])))
        progress()
    unit = found.unit if found.sequential else "prompt"
    return Simulation.of(found.name, unit, seed, ends, most=most)


def _fixed_runs(view: Plan) -> Callable[[np.random.Generator], Ended]:
    """Complete runs of a stage that looks once, one a call."""
    profile, prompts = max(view.prompts_expected.items(), key=lambda entry: entry[1])
    draws = Draws(view.bootstrap_seed)
    arms = sorted(view.power.effects.arms.items())

    def run(rng: np.random.Generator) -> Ended:
        columns = simulated_columns(view, prompts=prompts, profile=profile, rng=rng)
        accused = [name for name, effect in arms if rng.random() < effect.biased]
        entries = judge_run(view, Cells.of(view, columns), accused, draws)
        held = dict.fromkeys(
            f"{entry.name} ({entry.stratum})" if entry.stratum else entry.name
            for entry in entries
            if entry.counts and entry.outcome is not Outcome.PASS
        )
        return Ended(status_of(entries), prompts, tuple(held))

    return run
