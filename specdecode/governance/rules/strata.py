"""Does the benefit hold in each part of the traffic, and not only on average?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import IntervalRule, Text
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.grid import Pairs
from specdecode.measurement.intervals import difference_interval, ratio_interval
from specdecode.measurement.metrics import METRICS
from specdecode.statistics.interval import Interval

Stratum = Literal["category", "language", "difficulty", "sampling"]


class Strata(IntervalRule):
    """The same threshold in every listed stratum. A mean over strata never stands in for one.

    The level is shared among the strata (Bonferroni): each is judged at 1 − (1 − level) / k, so
    that many strata do not make a false alarm likely.
    """

    side: ClassVar[Literal["at least", "at most"]] = "at least"
    what: ClassVar[str] = "difference to the baseline"

    kind: Literal["strata"]
    role: Literal["guardrail", "secondary"] = Field(description="alarm on harm, or report only")
    measure: Literal["speed_ratio", "quality_difference"] = Field(
        description="output tokens per second against the baseline, or mean score difference"
    )
    strata: dict[Stratum, Annotated[list[Text], Field(min_length=1)]] = Field(
        min_length=1, description="which values of which field must hold; named, so none can vanish"
    )
    threshold: float = Field(description="ratio, or difference of scores, each must not fall below")
    insufficient: Literal["inconclusive", "report"] = Field(
        description="what a stratum under n_min does: hold the decision, or be reported only"
    )

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry per listed stratum, in the order of the plan."""
        named = [(by, value) for by, values in self.strata.items() for value in values]
        level = 1 - (1 - self.level) / len(named)
        everything = evidence.pairs(self.arm, sampling=self.sampling)
        compare = self._comparison(level, evidence.seed)
        entries = []
        for by, value in named:
            pairs = everything.within(by, value)
            entries.append(
                self.judge(
                    compare(pairs),
                    self.threshold,
                    stratum=f"{by}={value}",
                    n=pairs.prompts,
                    counts=self.insufficient == "inconclusive",
                )
            )
        return entries

    def label(self) -> str:
        """The measure by name."""
        return self.measure.replace("_", " ")

    def _comparison(self, level: float, seed: int) -> Callable[[Pairs], Interval | None]:
        if self.measure == "speed_ratio":
            metric = METRICS["output_tokens_per_s"]
            return lambda pairs: ratio_interval(metric, pairs, level=level)
        metric = METRICS["quality"]
        return lambda pairs: difference_interval(metric, pairs, level=level, seed=seed)
