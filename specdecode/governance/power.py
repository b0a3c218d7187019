"""How often a plan would answer what, were its supposed effects true.

Each run makes the rows of one complete stage and lets `decide` judge them by the plan's own rules.
Three things are done otherwise. Rules that only report are left out: they change no answer. The
audit's word is drawn by the chance that the effects state (`biased`), since it reads tokens and no
rows; its control is taken to pass. Tail latency is judged by `power_tail`, which is the same rule
computed faster.

What is simulated is one look at a fixed number of prompts, which is what rules are. Stages that
look again and again are judged by metrics and have no rules, so they are refused.

Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934), for the intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specdecode.errors import ConfigError
from specdecode.governance.decide import decide
from specdecode.governance.plan import parse_plan
from specdecode.governance.plan_schema import Plan
from specdecode.governance.power_rows import simulated_rows
from specdecode.governance.power_tail import judge_tail
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.tail_latency import TailLatency
from specdecode.governance.verdict import Outcome, RuleResult, Status, Verdict
from specdecode.statistics.binomial import proportion_interval

LEVEL = 0.95
"""Level of the intervals of the chances."""


@dataclass(frozen=True)
class Chance:
    """How often one status came.

    Attributes:
        count: runs that ended so.
        rate: their share.
        low: lower end of the Clopper-Pearson interval of the chance.
        high: its upper end.
    """

    count: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Simulation:
    """What simulated runs of one stage came to.

    Attributes:
        stage: name of the stage.
        runs: how many.
        seed: what all their chance came from.
        prompts: mean number of prompts a run needed.
        chances: by status, the four of a verdict.
        held_by: how often each rule kept a run from GO, most often first.
    """

    stage: str
    runs: int
    seed: int
    prompts: float
    chances: dict[Status, Chance]
    held_by: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe document."""
        return {
            "stage": self.stage,
            "runs": self.runs,
            "seed": self.seed,
            "level": LEVEL,
            "expected_n": self.prompts,
            "chances": {
                status.value: {"count": c.count, "rate": c.rate, "low": c.low, "high": c.high}
                for status, c in self.chances.items()
            },
            "held_by": self.held_by,
        }


def suppose(plan: Plan, changes: Mapping[str, Any], where: str = "effects") -> Plan:
    """The plan with other supposed effects; its rules stay as they are.

    Args:
        plan: whose effects hold wherever `changes` says nothing.
        changes: fields of `power.effects`; those of an arm may be given one by one.
        where: for messages.

    Raises:
        ConfigError: there is no such field or arm, or a value is impossible.
    """
    document = plan.whole.model_dump(by_alias=True)
    effects = document["power"]["effects"]
    arms = changes.get("arms", {})
    if not isinstance(arms, Mapping):
        raise ConfigError(f"{where}: arms: expected {{arm: {{field: value}}}}")
    for name, fields in arms.items():
        if name not in effects["arms"] or not isinstance(fields, Mapping):
            known = ", ".join(effects["arms"])
            raise ConfigError(f"{where}: arms: {name}: expected fields of one of {known}")
        effects["arms"][name] |= fields
    effects |= {name: value for name, value in changes.items() if name != "arms"}
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
        seed: the same seed gives the same answer.
        progress: called after each run.

    Raises:
        ConfigError: no such stage, one without rules, one in which no size matters, or fewer than
            one run.
    """
    view = plan.at(stage or plan.stage)
    judged, tails = _judged(view)
    profile, prompts = max(view.prompts_expected.items(), key=lambda entry: entry[1])
    statuses: Counter[Status] = Counter()
    held_by: Counter[str] = Counter()
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        rows = simulated_rows(view, prompts=prompts, profile=profile, rng=rng)
        found = [judge_tail(rule, rows, view.baseline, rng) for rule in tails]
        verdict = decide(judged, rows)
        accused = _accused(view, rng)
        statuses[_status(verdict, found, accused=bool(accused))] += 1
        held_by.update([*accused, *_holding([*verdict.rules, *found])])
        progress()
    return Simulation(
        stage=view.stage,
        runs=runs,
        seed=seed,
        prompts=float(prompts),
        chances={status: _chance(statuses[status], runs) for status in Status},
        held_by=dict(held_by.most_common()),
    )


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


def _holding(entries: Iterable[RuleResult]) -> list[str]:
    """Rules (with their stratum) that did not let this run pass, each once."""
    return [
        f"{entry.name} ({entry.stratum})" if entry.stratum else entry.name
        for entry in entries
        if entry.outcome is Outcome.INVALID or (entry.counts and entry.outcome is not Outcome.PASS)
    ]


def _chance(count: int, runs: int) -> Chance:
    interval = proportion_interval(count, runs, level=LEVEL)
    if interval is None:
        raise ConfigError(f"runs must be at least 1, not {runs}")
    return Chance(count, interval.estimate, interval.low, interval.high)
