"""How much does the target compute for each visible token?"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import metric_interval
from specdecode.measurement.metrics import METRICS


class TokenAmplification(IntervalRule):
    """Target rows computed after prefill / visible tokens, pooled over the arm's requests."""

    side: ClassVar[Literal["at least", "at most"]] = "at most"
    what: ClassVar[str] = "number of target tokens per visible token"

    kind: Literal["token_amplification"]
    threshold: Annotated[float, Field(ge=1)] = Field(description="1 is what plain decoding needs")

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        metric = METRICS["target_tokens_per_output_token"]
        requests = evidence.requests(self.arm, self.sampling)
        interval = metric_interval(metric, requests, level=self.level)
        return [self.judge(interval, self.threshold)]
