"""The plan as a whole, and what its parts must have to do with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from specdecode.errors import ConfigError
from specdecode.governance.live.fitness import problems
from specdecode.governance.plan_arms import Arm
from specdecode.governance.plan_live_effects import check_live_effects
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_operation import (
    Approvals,
    Contingency,
    CostOfWrong,
    Maintenance,
    StopCondition,
    Traffic,
)
from specdecode.governance.plan_power import Power
from specdecode.governance.plan_stages import LADDER, MissingData, Stage, StageName
from specdecode.governance.rules import AnyRule
from specdecode.governance.rules.base import IntervalRule, Rule
from specdecode.governance.rules.efficiency_gain import EfficiencyGain
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.strata import Strata, Stratum
from specdecode.governance.strict import Strict, Text, refuse_twice

PLAN_SCHEMA: Literal["specdecode.plan/2"] = "specdecode.plan/2"

Seed = Annotated[int, Field(ge=0)]


class Plan(Strict):
    """A decision to be made, and how. Unknown fields are refused."""

    schema_name: Literal["specdecode.plan/2"] = Field(alias="schema")
    name: Text = Field(description="short name of the plan")
    decision: Text = Field(description="what is done or left undone by the answer")
    claim: Text = Field(description="what a GO would mean, in one sentence")
    owner: Text = Field(description="who owns the decision")
    population: Text = Field(description="the traffic the claim is about, and what it leaves out")
    traffic: Traffic = Field(description="the load it is about")
    bottleneck: Text = Field(description="what limits the service today, that this should relieve")
    simplest_alternative: Text = Field(
        description="the least that could relieve it too, and why it is not enough"
    )
    cost_of_wrong: CostOfWrong = Field(description="what either mistake costs")
    maintenance: Maintenance = Field(description="effort that is expected")
    unit: Literal["prompt"] = Field(
        description="what intervals are over; tokens are never independent"
    )
    stage: StageName = Field(description="stage the rows must come from")
    arms: list[Arm] = Field(min_length=2, description="exactly these arms must be in the rows")
    sampling: list[Text] = Field(
        min_length=1, description="exactly these sampling settings must be in the rows"
    )
    prompts_expected: dict[Text, Annotated[int, Field(ge=1)]] = Field(
        min_length=1,
        description="prompts a complete run has at least, by profile; fewer is an early end",
    )
    order_seed: Seed = Field(description="seed of the order in which prompts are measured")
    bootstrap_seed: Seed = Field(
        description="seed of whatever an interval draws: the order of bets, and resampled tails"
    )
    exclusions: list[Text] = Field(description="which requests are left out, and why; [] for none")
    missing_data: MissingData = Field(description="how much may be missing")
    metrics: list[PlanMetric] = Field(min_length=1, description="what is watched, and by whom")
    rules: list[AnyRule] = Field(min_length=1, description="what is asked of the evidence")
    strata: dict[Stratum, Annotated[list[Text], Field(min_length=1)]] = Field(
        description="parts of the traffic that must each hold; a strata rule judges every one"
    )
    stages: list[Stage] = Field(min_length=1, description="the way to all users, in order")
    alpha_total: Annotated[float, Field(gt=0, lt=0.5)] | None = Field(
        None,
        description="chance of a false GO that all stages may spend together; null: only their sum "
        "is told",
    )
    stop_conditions: list[StopCondition] = Field(
        min_length=1, description="when to stop, and how users get back what they had"
    )
    contingencies: list[Contingency] = Field(description="deviations foreseen; [] for none")
    approvals: Approvals = Field(description="who must sign")
    power: Power = Field(description="how likely a GO must be, under which effects")
    overturned_by: list[Text] = Field(
        min_length=1, description="findings that would overturn the claim even after a GO"
    )
    reopen_when: list[Text] = Field(
        min_length=1, description="what would have to change to ask again after another answer"
    )

    # The plan this one is a stage of: a stage's view carries the hash of the whole.
    _whole: Plan | None = PrivateAttr(default=None)

    @property
    def baseline(self) -> str:
        """Name of the baseline arm."""
        return next(arm.name for arm in self.arms if arm.role == "baseline")

    @property
    def candidates(self) -> list[str]:
        """Names of the arms that are to be released."""
        return [arm.name for arm in self.arms if arm.role == "candidate"]

    @property
    def sequential_stage(self) -> Stage | None:
        """The stage this is a view of, if its metrics are judged look by look; else None."""
        found = [entry for entry in self.stages if entry.name == self.stage and entry.sequential]
        return found[0] if found else None

    @property
    def whole(self) -> Plan:
        """The plan as written, whichever stage this is a view of."""
        return self._whole or self

    def at(self, stage: str) -> Plan:
        """The plan as `decide` must see it for the rows of one stage; its hash stays the same.

        Raises:
            ConfigError: the plan has no such stage, or cannot be decided by there; says why.
        """
        whole = self.whole
        found = {entry.name: entry for entry in whole.stages}.get(stage)  # type: ignore[call-overload]
        if found is None:
            names = ", ".join(entry.name for entry in whole.stages)
            raise ConfigError(f"plan {whole.name} has no stage {stage}; it has {names}")
        rules = whole.rules_of(found)
        if found.sequential:
            named = [metric for metric in whole.metrics if metric.name in found.metrics]
            if wrong := list(problems(found, named, whole.candidates)):
                raise ConfigError(
                    f"plan {whole.name}: stage {stage} has no rules that look at its numbers, and "
                    f"its metrics cannot be judged: {'; '.join(text for _, text in wrong)}"
                )
        elif not rules:
            raise ConfigError(f"plan {whole.name}: stage {stage} has no rules to decide by")
        view = whole.model_copy(
            update={
                "stage": found.name,
                "rules": rules,
                "missing_data": found.missing_data or whole.missing_data,
                "prompts_expected": found.prompts_expected or whole.prompts_expected,
            }
        )
        view._whole = whole
        return view

    def rules_of(self, stage: Stage) -> list[AnyRule]:
        """The rules `decide` applies to rows of this stage, in the plan's order."""
        return [rule for rule in self.rules if stage.rules is None or rule.name in stage.rules]

    def stratum_values(self, by: str) -> list[str]:
        """Values of a stratum that any rule names: those the prompts are supposed to have."""
        named = (
            value
            for rule in self.rules
            if isinstance(rule, Strata)
            for field, values in rule.strata.items()
            if field == by
            for value in values
        )
        return list(dict.fromkeys(named))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [arm.name for arm in self.arms]
        roles = [arm.role for arm in self.arms]
        refuse_twice("arms", names)
        refuse_twice("sampling", self.sampling)
        refuse_twice("rules", [rule.name for rule in self.rules])
        refuse_twice("metrics", [metric.name for metric in self.metrics])
        refuse_twice("contingencies", [entry.name for entry in self.contingencies])
        if roles.count("baseline") != 1 or "candidate" not in roles:
            raise ValueError("arms: one baseline and at least one candidate are needed")
        for rule in self.rules:
            self._check_rule(rule, names)
        self._check_judged(self.rules, "rules")
        self._check_stages()
        self._check_strata()
        self._check_effects(names)
        if self.approvals.required_roles and self.approvals.signers_file is None:
            raise ValueError("approvals: required_roles need a signers_file that says who has them")
        return self

    def _check_rule(self, rule: Rule, arms: list[str]) -> None:
        named = [rule.arm, *([rule.versus] if isinstance(rule, EfficiencyGain) else [])]
        if unknown := [name for name in named if name not in arms]:
            raise ValueError(f"rules: {rule.name}: no arm {unknown[0]}; arms are {arms}")
        sampling = getattr(rule, "sampling", None)
        if sampling is not None and sampling not in self.sampling:
            raise ValueError(f"rules: {rule.name}: no sampling {sampling} in {self.sampling}")
        if rule.arm == self.baseline:
            raise ValueError(f"rules: {rule.name}: the baseline is not judged against itself")

    def _check_judged(self, rules: Sequence[Rule], where: str) -> None:
        """Every candidate must pass something, be exact, and not escape by failing."""
        for arm in (arm for arm in self.arms if arm.role == "candidate"):
            own = [rule for rule in rules if rule.arm == arm.name]
            if not any(rule.role == "primary" for rule in own):
                raise ValueError(f"{where}: candidate {arm.name} has no primary rule to pass")
            if arm.draft and not any(
                isinstance(rule, Losslessness) and rule.role != "secondary" for rule in own
            ):
                raise ValueError(
                    f"{where}: candidate {arm.name} drafts, so it needs a losslessness rule that "
                    "is primary or guardrail; speed without it means nothing"
                )
            # All other rules leave failed requests out, so without this one they escape judgement.
            if not any(isinstance(rule, ErrorRate) and rule.role != "secondary" for rule in own):
                raise ValueError(
                    f"{where}: candidate {arm.name} needs an error_rate rule that is primary or "
                    "guardrail; no other rule sees requests that failed"
                )

    def _check_stages(self) -> None:
        found = [stage.name for stage in self.stages]
        refuse_twice("stages", list(found))
        if found != sorted(found, key=LADDER.index):
            raise ValueError(f"stages: their order is {', '.join(LADDER)}, found {found}")
        if self.stage not in found:
            raise ValueError(f"stages: {self.stage}, the plan's stage, is not among them")
        rules, metrics = {r.name for r in self.rules}, {m.name for m in self.metrics}
        for stage in self.stages:
            where = f"stages: {stage.name}"
            for name in stage.rules or []:
                if name not in rules:
                    raise ValueError(f"{where}: there is no rule {name}")
            for name in stage.metrics:
                if name not in metrics:
                    raise ValueError(f"{where}: there is no metric {name}")
            own = self.rules_of(stage)
            if stage.name == self.stage and len(own) < len(self.rules):
                raise ValueError(f"{where}: the plan's own stage has all its rules: rules: null")
            if stage.sequential:
                _check_bear_looks(where, own)
                refuse_twice(where, [*(rule.name for rule in own), *stage.metrics])
            elif own:
                self._check_judged(own, where)
                _check_alpha(where, stage.alpha, own)

    def _check_effects(self, names: list[str]) -> None:
        effects = self.power.effects
        if set(effects.arms) != set(names) - {self.baseline}:
            raise ValueError("power: effects: arms are to be all arms but the baseline")
        if effects.live is not None:
            if set(effects.live) != {self.baseline, *self.candidates}:
                raise ValueError("power: effects: live is to name the baseline and all candidates")
            check_live_effects(effects.live, self.metrics)
        for arm in self.arms:
            most = 1 + (arm.num_speculative_tokens or effects.num_speculative_tokens)
            if arm.name in effects.arms and effects.arms[arm.name].acceptance_length > most:
                raise ValueError(
                    f"power: effects: {arm.name} cannot have an acceptance_length above its draft "
                    f"length and the bonus token, {most}"
                )

    def _check_strata(self) -> None:
        judged: dict[str, set[str]] = {}
        for rule in self.rules:
            if isinstance(rule, Strata) and rule.role != "secondary":
                for by, values in rule.strata.items():
                    judged.setdefault(by, set()).update(values)
        for by, values in self.strata.items():
            if missing := sorted(set(values) - judged.get(by, set())):
                raise ValueError(
                    f"strata: no strata rule with a say judges {by} {', '.join(missing)}"
                )


def _check_bear_looks(where: str, rules: Sequence[Rule]) -> None:
    """The audit holds at every look; whatever else a rule computes is meant for one."""
    if once := [rule.name for rule in rules if not isinstance(rule, Losslessness)]:
        raise ValueError(
            f"{where}: {once[0]} looks once at a fixed n; of the rules only losslessness bears "
            "more, so judge the others' metrics, or take method: fixed-n"
        )


def _check_alpha(where: str, alpha: float, rules: Sequence[Rule]) -> None:
    """GO needs every primary rule, so its error is that of the loosest one."""
    for rule in rules:
        if isinstance(rule, IntervalRule) and rule.role == "primary":
            own = (1 - rule.level) / 2
            if own > alpha + 1e-12:
                raise ValueError(
                    f"{where}: {rule.name} at level {rule.level:g} errs towards GO with "
                    f"{own:.4g}, more than the alpha of {alpha:g}"
                )
