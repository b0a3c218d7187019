"""Did the slow requests become slower?"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule, Positive
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import quantile_ratio_interval
from specdecode.measurement.metrics import METRICS


class TailLatency(IntervalRule):
    """A high quantile of a latency over the arm's requests / the same over the baseline's."""

    side: ClassVar[Literal["at least", "at most"]] = "at most"
    what: ClassVar[str] = "tail latency ratio to the baseline"

    kind: Literal["tail_latency"]
    role: Literal["guardrail", "secondary"] = Field(
        description="a bootstrapped tail may raise an alarm or inform; it proves nothing"
    )
    metric: Literal["ttft_s", "tpot_s", "e2e_s"] = Field(description="which latency")
    quantile: Annotated[float, Field(ge=0.5, lt=1)] = Field(description="0.95 for p95")
    threshold: Positive = Field(description="1 means as slow as the baseline")

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        pairs = evidence.pairs(self.arm, sampling=self.sampling)
        interval = quantile_ratio_interval(
            METRICS[self.metric], pairs, self.quantile, level=self.level, seed=evidence.seed
        )
        return [self.judge(interval, self.threshold, n=pairs.prompts)]

    def label(self) -> str:
        """Metric and quantile by name."""
        return f"p{self.quantile * 100:g} {self.metric.removesuffix('_s')} ratio to the baseline"
