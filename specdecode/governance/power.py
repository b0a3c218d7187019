"""How often a plan would answer what, were its supposed effects true.

A stage that looks once is simulated here: each run makes the rows of one complete stage and lets
`decide` judge them by the plan's own rules. Three things are done otherwise. Rules that only report
are left out: they change no answer. The audit's word is drawn by the chance that the effects state
(`biased`), since it reads tokens and no rows; its control is taken to pass. Tail latency is judged
by `power_tail`, which is the same rule computed faster.

Stages that look again and again are simulated by `power_live`, and the way through all of them by
`power_ladder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from specdecode.errors import ConfigError
from specdecode.governance.decide import decide
from specdecode.governance.plan import parse_plan
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import FIXED_N, LADDER
from specdecode.governance.power_live import live_runs
from specdecode.governance.power_outcome import Ended, Simulation
from specdecode.governance.power_rows import simulated_rows
from specdecode.governance.power_tail import judge_tail
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.tail_latency import TailLatency
from specdecode.governance.verdict import Outcome, RuleResult, Status, Verdict


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
        ConfigError: no such stage, one in which no size matters, a live one without an effect that
            it needs, or fewer than one run.
    """
    view = plan.at(stage or plan.stage)
    found = next(entry for entry in view.stages if entry.name == view.stage)
    if runs < 1:
        raise ConfigError(f"runs must be at least 1, not {runs}")
    looks_once = found.method in FIXED_N
    one = _fixed_runs(view) if looks_once else live_runs(view)
    ends = []
    for run in range(runs):
        ends.append(one(np.random.default_rng([seed, run, LADDER.index(found.name)])))
        progress()
    return Simulation.of(found.name, "prompt" if looks_once else found.unit, seed, ends)


def _fixed_runs(view: Plan) -> Callable[[np.random.Generator], Ended]:
    """Complete runs of a stage that looks once, one a call."""
    judged, tails = _judged(view)
    profile, prompts = max(view.prompts_expected.items(), key=lambda entry: entry[1])

    def run(rng: np.random.Generator) -> Ended:
        rows = simulated_rows(view, prompts=prompts, profile=profile, rng=rng)
        found = [judge_tail(rule, rows, view.baseline, rng) for rule in tails]
        verdict = decide(judged, rows)
        accused = _accused(view, rng)
        status = _status(verdict, found, accused=bool(accused))
        return Ended(status, prompts, (*accused, *holding([*verdict.rules, *found])))

    return run


def _status(verdict: Verdict, found: Sequence[RuleResult], *, accused: bool) -> Status:
    """The verdict's status, once tails and audit have had their say; the precedence is its own."""
    own = {verdict.status}
    if accused or any(entry.outcome is Outcome.FAIL for entry in found):
        own.add(Status.NO_GO)
    if any(entry.outcome is Outcome.INSUFFICIENT for entry in found):
        own.add(Status.INCONCLUSIVE)
    return next(status for status in Status if status in own)


def _judged(view: Plan) -> tuple[Plan, list[TailLatency]]:
    """The plan reduced to rules for `decide`, and those judged beside it.

    Raises:
        ConfigError: no primary rule is left, so nothing depends on the number of prompts.
    """
    deciding = [rule for rule in view.rules if rule.role != "secondary"]
    rules = [rule for rule in deciding if not isinstance(rule, Losslessness | TailLatency)]
    if not any(rule.role == "primary" for rule in rules):
        raise ConfigError(
            f"plan {view.name}: {view.stage} has no primary rule besides losslessness, so there is "
            "nothing to simulate"
        )
    tails = [rule for rule in deciding if isinstance(rule, TailLatency)]
    return view.model_copy(update={"rules": rules}), tails


def _accused(view: Plan, rng: np.random.Generator) -> list[str]:
    """Losslessness rules with a say whose arm the audit calls biased in this run."""
    arms = view.power.effects.arms
    called = {name: rng.random() < effect.biased for name, effect in sorted(arms.items())}
    return [
        rule.name
        for rule in view.rules
        if isinstance(rule, Losslessness) and rule.role != "secondary" and called[rule.arm]
    ]


def holding(entries: Iterable[RuleResult]) -> list[str]:
    """Rules (with their stratum) that did not let this run pass, each once."""
    return [
        f"{entry.name} ({entry.stratum})" if entry.stratum else entry.name
        for entry in entries
        if entry.outcome is Outcome.INVALID or (entry.counts and entry.outcome is not Outcome.PASS)
    ]
