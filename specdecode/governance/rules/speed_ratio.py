"""Is the arm faster than the baseline, per output token?"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule, Positive
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import ratio_interval
from specdecode.measurement.metrics import METRICS


class SpeedRatio(IntervalRule):
    """Output tokens per second of the arm / of the baseline, pooled over paired prompts."""

    side: ClassVar[Literal["at least", "at most"]] = "at least"
    what: ClassVar[str] = "speed ratio to the baseline"

    kind: Literal["speed_ratio"]
    threshold: Positive = Field(description="1 means as fast as the baseline")

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        pairs = evidence.pairs(self.arm, sampling=self.sampling)
        interval = ratio_interval(METRICS["output_tokens_per_s"], pairs, level=self.level)
        return [self.judge(interval, self.threshold, n=pairs.prompts)]
