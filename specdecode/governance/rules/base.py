"""What all kinds of rule share: their fields, and how an interval meets a threshold.

A primary rule must be shown: the whole interval on the good side. A guardrail raises an alarm: it
fails only when the whole interval is on the bad side, and says nothing under its `n_min`. A
secondary rule is reported and never decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specdecode.governance.evidence import Evidence
from specdecode.governance.verdict import Outcome, RuleResult
from specdecode.statistics.interval import Interval

Text = Annotated[str, Field(min_length=1)]
Level = Annotated[float, Field(gt=0.5, lt=1)]
Positive = Annotated[float, Field(gt=0)]

FEWEST_PROMPTS = 20
"""Least `n_min` of a primary rule. Fewer prompts stand for too little traffic, and what one of them
contributes is too far from normal for Student's t."""


class Rule(BaseModel, ABC):
    """Fields every rule of a plan has."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    kind: str
    name: Text = Field(description="unique name in the plan")
    role: Literal["primary", "guardrail", "secondary"] = Field(
        description="primary must be shown, guardrail raises alarms, secondary only reports"
    )
    arm: Text = Field(description="arm the rule judges")
    why: Text = Field(description="why this threshold, written before any measurement")

    @abstractmethod
    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """Apply the rule; at least one entry."""

    def result(
        self,
        outcome: Outcome,
        reason: str,
        *,
        remedy: str | None = None,
        interval: Interval | None = None,
        threshold: float | None = None,
        stratum: str | None = None,
        n: int | None = None,
        counts: bool = True,
    ) -> RuleResult:
        """An entry of this rule."""
        return RuleResult(
            name=self.name,
            kind=self.kind,
            role=self.role,
            arm=self.arm,
            stratum=stratum,
            estimate=interval.estimate if interval else None,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            level=interval.level if interval else None,
            threshold=threshold,
            n=interval.n if interval else n,
            outcome=outcome,
            reason=reason,
            remedy=remedy,
            counts=counts and self.role != "secondary",
        )


class IntervalRule(Rule):
    """A rule that compares an interval over prompts with a threshold."""

    side: ClassVar[Literal["at least", "at most"]]
    what: ClassVar[str]

    level: Level = Field(description="two-sided level of the interval, such as 0.95")
    n_min: Annotated[int, Field(ge=2)] = Field(
        description="prompts needed before the rule says anything"
    )
    sampling: Text | None = Field(None, description="judge this sampling setting only; null: all")

    @model_validator(mode="after")
    def _enough_prompts(self) -> Self:
        if self.role == "primary" and self.n_min < FEWEST_PROMPTS:
            raise ValueError(
                f"n_min of a primary rule is at least {FEWEST_PROMPTS}, found {self.n_min}; an "
                "interval over fewer prompts shows too little to decide on"
            )
        return self

    def judge(
        self,
        interval: Interval | None,
        threshold: float,
        *,
        stratum: str | None = None,
        n: int = 0,
        counts: bool = True,
    ) -> RuleResult:
        """Interval against threshold, by the role of the rule.

        Args:
            interval: None when there were too few prompts to state one.
            threshold: what the number must be `side` of.
            stratum: label, or None for all prompts.
            n: prompts found when there is no interval.
            counts: False when an insufficient stratum is only to be reported.
        """
        n = interval.n if interval else n
        where = f" in {stratum}" if stratum else ""
        if interval is None or n < self.n_min:
            return self.result(
                Outcome.INSUFFICIENT,
                f"too little data: {n} prompts{where}, the plan needs {self.n_min} to judge the "
                f"{self.label()}",
                remedy=f"measure at least {self.n_min} prompts{where} (now {n})",
                interval=interval,
                threshold=threshold,
                stratum=stratum,
                n=n,
                counts=counts,
            )
        if self.side == "at least":
            good, bad = interval.low >= threshold, interval.high < threshold
        else:
            good, bad = interval.high <= threshold, interval.low > threshold
        wanted = f"{self.side} {threshold:g}"
        outcome, finding = self._outcome(good=good, bad=bad)
        reason = (
            f"{self.label()}{where} {interval.estimate:.4g}, {100 * interval.level:.4g} % interval "
            f"{interval.low:.4g} to {interval.high:.4g} over {n} prompts; {wanted} was asked: "
            f"{finding}"
        )
        remedies = {
            Outcome.FAIL: f"a change that brings the {self.label()}{where} to {wanted}",
            Outcome.UNDECIDED: f"more prompts, to tell whether the {self.label()} is {wanted}",
        }
        return self.result(
            outcome,
            reason,
            remedy=remedies.get(outcome),
            interval=interval,
            threshold=threshold,
            stratum=stratum,
        )

    def label(self) -> str:
        """What is judged, for sentences."""
        return self.what

    def _outcome(self, *, good: bool, bad: bool) -> tuple[Outcome, str]:
        if bad:
            return Outcome.FAIL, "clearly missed"
        if good:
            return Outcome.PASS, "shown"
        if self.role == "guardrail":
            return Outcome.PASS, "no violation shown"
        return Outcome.UNDECIDED, "not decided by these data"
