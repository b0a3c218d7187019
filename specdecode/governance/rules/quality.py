"""Is the quality of the replies not worse than the baseline's, up to a margin?"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import difference_interval
from specdecode.measurement.metrics import METRICS


class QualityNonInferiority(IntervalRule):
    """Mean checker score of the arm − of the baseline, over pairs that have both."""

    side: ClassVar[Literal["at least", "at most"]] = "at least"
    what: ClassVar[str] = "quality difference to the baseline"

    kind: Literal["quality_non_inferiority"]
    margin: Annotated[float, Field(gt=0, lt=1)] = Field(
        description="largest acceptable loss of mean score, absolute"
    )

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        pairs = evidence.pairs(self.arm, sampling=self.sampling)
        interval = difference_interval(
            METRICS["quality"], pairs, level=self.level, seed=evidence.seed
        )
        scored = len(set(pairs.sample(METRICS["quality"]).prompts.tolist())) if not interval else 0
        return [self.judge(interval, -self.margin, n=scored)]
