"""Does a step yield enough tokens?"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import metric_interval
from specdecode.measurement.metrics import METRICS


class AcceptanceLength(IntervalRule):
    """Mean acceptance length of the arm: tokens per step, bonus included."""

    side: ClassVar[Literal["at least", "at most"]] = "at least"
    what: ClassVar[str] = "mean acceptance length"

    kind: Literal["acceptance_length"]
    threshold: Annotated[float, Field(ge=1)] = Field(description="tokens per step, from 1 to γ + 1")

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        requests = evidence.requests(self.arm, self.sampling)
        interval = metric_interval(METRICS["mean_acceptance_length"], requests, level=self.level)
        return [self.judge(interval, self.threshold)]
