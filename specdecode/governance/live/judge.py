"""From the rows of a live stage to an outcome for each of its metrics.

A primary metric passes once its whole sequence is on the good side of its margin, `n_min` units
provided. Any metric fails once all of it is on the bad side, however few units that took. A
guardrail below `n_min` holds the decision; one of a stratum is only reported then. What is decided
stays decided, since the sequences never widen; but for a sequence that ends up empty, because what
is measured has become worse: then nothing good counts as shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.errors import EvidenceError
from specdecode.governance.live.alarms import (
    alarm_name,
    alarms,
    metrics_of,
    place,
    role_of,
    strata_of,
)
from specdecode.governance.live.findings import Finding
from specdecode.governance.live.margins import ERROR_RATE, scale_of
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.live.samples import Sample, kind_of, sample_of
from specdecode.governance.live.scope import Scope, scope_of, steps_with
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import Stage
from specdecode.governance.verdict import Outcome, Role, RuleResult


def judge_metrics(plan: Plan, stage: Stage, rows: LiveRows) -> list[RuleResult]:
    """An entry for each metric (and step of a canary that has rows), and for guardrails of strata.

    Args:
        plan: a view of the stage.
        stage: with a sequential method.
        rows: valid evidence, in time order.
    """
    arm = plan.candidates[0]
    scopes = {
        step: scope_of(stage, rows, step, arm, plan.baseline) for step in steps_with(stage, rows)
    }
    judge = _Judge(plan, stage, arm)
    return [entry for metric in metrics_of(plan, stage) for entry in judge.entries(metric, scopes)]


def not_judged(plan: Plan, stage: Stage) -> list[RuleResult]:
    """The entries of all metrics where there are no rows, or none that are valid evidence."""
    return [
        RuleResult(
            name=metric.name,
            kind=kind_of(stage, metric),
            role=role_of(metric, stage),
            arm=plan.candidates[0],
            outcome=Outcome.NOT_EVALUATED,
            reason="not evaluated: there are no rows that are valid evidence",
            counts=metric.role != "secondary",
        )
        for metric in metrics_of(plan, stage)
    ]


class _Judge:
    """The entries of one metric after the other."""

    def __init__(self, plan: Plan, stage: Stage, arm: str) -> None:
        self._stage, self._arm = stage, arm
        self._strata = strata_of(plan)
        self._ledger = alarms(plan, stage)

    def entries(self, metric: PlanMetric, scopes: dict[str | None, Scope]) -> Iterator[RuleResult]:
        """One per step, each followed by its strata."""
        role = role_of(metric, self._stage)
        if role == "secondary" and metric.margin is None:
            yield self._entry(
                metric, role, None, Outcome.NOT_EVALUATED, "it has no margin to be judged by"
            )
            return
        for step, scope in scopes.items():
            yield self._judged(metric, role, scope, place(step, None))
            if role == "guardrail":
                for by, value in self._strata:
                    where = place(step, (by, value))
                    yield self._judged(metric, role, scope.within(by, value), where, part=True)

    def _judged(
        self,
        metric: PlanMetric,
        role: Role,
        scope: Scope,
        where: str | None,
        *,
        part: bool = False,
    ) -> RuleResult:
        alpha = self._alpha(metric, role, where)
        try:
            sample = sample_of(self._stage, metric, scope, alpha)
        except EvidenceError as error:
            reason = f"{error}; the plan's bounds are wrong, or the measurement is"
            return self._entry(metric, role, where, Outcome.INVALID, reason)
        found = sample.finding
        outcome, decided = outcome_of(role, found)
        level = None if sample.kind == "e-detector" or found.low is None else 1 - 2 * alpha
        return self._entry(
            metric,
            role,
            where,
            outcome,
            self._reason(metric, role, sample, scope, outcome),
            remedy=self._remedy(metric, outcome, scope, found),
            finding=found,
            level=level,
            decided=decided,
            counts=not (part and outcome is Outcome.INSUFFICIENT),
        )

    def _alpha(self, metric: PlanMetric, role: Role, where: str | None) -> float:
        if role == "guardrail":
            return self._ledger.level(alarm_name(metric.name, where))
        if self._stage.method == "e-detector":  # reported only: no part of what alarms share
            return float(self._ledger.total)
        return self._stage.alpha

    def _reason(
        self, metric: PlanMetric, role: Role, sample: Sample, scope: Scope, outcome: Outcome
    ) -> str:
        found, stage = sample.finding, self._stage
        most = "" if stage.n_max is None else f" of {stage.n_max}"
        word = self._word(role, found, outcome, spent=scope.spent)
        text = (
            f"{_number(metric, found)}, {scale_of(metric).asked}: {word} "
            f"after {found.n}{most} {stage.unit}s"
        )
        left = [
            (sample.failed, _failures(metric)),
            (sample.empty, "had no number"),
            (scope.open, _UNCOUNTED[stage.unit]),
            (scope.beyond, "came after n_max or the window and were not counted"),
        ]
        return text + "".join(f"; {count} {said}" for count, said in left if count)

    def _word(self, role: Role, found: Finding, outcome: Outcome, *, spent: bool) -> str:
        if outcome is Outcome.FAIL:
            return "harm is shown"
        if outcome is Outcome.PASS:
            return "no harm shown" if role == "guardrail" else "shown"
        if outcome is Outcome.INSUFFICIENT:
            return f"too little data, {self._stage.n_min} {self._stage.unit}s are needed"
        if found.empty:
            return "no common mean fits, it has become worse on the way,"
        return "not decided, budget spent" if spent else "not decided yet, goes on"

    def _remedy(
        self, metric: PlanMetric, outcome: Outcome, scope: Scope, found: Finding
    ) -> str | None:
        if outcome is Outcome.FAIL:
            return f"take {self._arm} back and find out what moved {metric.name}"
        if outcome not in (Outcome.INSUFFICIENT, Outcome.UNDECIDED):
            return None
        if found.empty:
            return f"find out what made {metric.name} worse on the way, and measure anew"
        if scope.spent:
            return (
                f"{metric.name} was not shown with what {self._stage.name} may read: stay with the "
                "baseline, or seal a plan with more"
            )
        return f"let {self._stage.name} go on, {metric.name} needs more {self._stage.unit}s"

    def _entry(
        self,
        metric: PlanMetric,
        role: Role,
        where: str | None,
        outcome: Outcome,
        reason: str,
        *,
        remedy: str | None = None,
        finding: Finding | None = None,
        level: float | None = None,
        decided: int | None = None,
        counts: bool = True,
    ) -> RuleResult:
        found = finding or Finding(0)
        return RuleResult(
            name=metric.name,
            kind=kind_of(self._stage, metric),
            role=role,
            arm=self._arm,
            stratum=where,
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            level=level,
            threshold=None if metric.margin is None else scale_of(metric).threshold,
            n=found.n,
            outcome=outcome,
            reason=reason,
            remedy=remedy,
            counts=counts and role != "secondary",
            decided_at=decided,
        )


_UNCOUNTED = {
    "request": "are not counted",
    "prompt": "repeat a prompt later and are not counted",
    "conversation": "are of conversations that have not ended",
}


def outcome_of(role: Role, found: Finding) -> tuple[Outcome, int | None]:
    """What a role makes of a finding, and after how many units it stood."""
    if found.bad_at is not None:
        return Outcome.FAIL, found.bad_at
    if found.ready_at is None:
        return Outcome.INSUFFICIENT, None
    if found.empty:
        return Outcome.UNDECIDED, None  # of two different means, neither was shown
    if role == "guardrail":
        return Outcome.PASS, None  # harm may still come
    if found.good_at is not None:
        return Outcome.PASS, max(found.good_at, found.ready_at)
    return Outcome.UNDECIDED, None


def _what(metric: PlanMetric) -> str:
    if metric.transform == "difference":
        return f"{metric.name} minus the baseline's"
    if metric.transform == "indicator":
        return f"share with {metric.name} within {metric.limit:g}"
    return metric.name


def _number(metric: PlanMetric, found: Finding) -> str:
    if found.estimate is None:
        return "nothing measured"
    number = f"{_what(metric)}: {found.estimate:.4g}"
    if found.low is None or found.high is None:
        return number
    return f"{number} ({found.low:.4g} to {found.high:.4g})"


def _failures(metric: PlanMetric) -> str:
    if metric.name == ERROR_RATE:
        return "failed"
    if metric.transform == "indicator":
        return "failed and count as outside the limit"
    return "failed and have no value here: error_rate judges them"
