"""Does one verification rule accept more tokens a step than another?"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule, Positive, Text
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import ratio_interval
from specdecode.measurement.metrics import METRICS


class EfficiencyGain(IntervalRule):
    """Mean acceptance length of the arm / of another speculative arm, same prompts and γ."""

    side: ClassVar[Literal["at least", "at most"]] = "at least"
    what: ClassVar[str] = "acceptance length ratio"

    kind: Literal["efficiency_gain"]
    versus: Text = Field(description="the other speculative arm")
    threshold: Positive = Field(description="1 means as many tokens per step")

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        pairs = evidence.pairs(self.arm, baseline=self.versus, sampling=self.sampling)
        metric = METRICS["mean_acceptance_length"]
        interval = ratio_interval(metric, pairs, level=self.level)
        return [self.judge(interval, self.threshold, n=pairs.prompts)]
