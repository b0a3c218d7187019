"""Do requests fail?"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import Level, Rule
from specdecode.governance.verdict import Outcome, RuleResult
from specdecode.statistics.binomial import proportion_interval


class ErrorRate(Rule):
    """Failed requests / requests of the arm, in these very rows.

    The observed rate decides, not its interval: with few requests an interval would excuse
    failures that are there for all to see.
    """

    kind: Literal["error_rate"]
    max_rate: Annotated[float, Field(ge=0, lt=1)] = Field(description="largest acceptable rate")
    level: Level = Field(description="two-sided level of the Clopper-Pearson interval shown")
    n_min: Annotated[int, Field(ge=1)] = Field(description="requests needed to say anything")

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry; `n` counts requests."""
        n, failed = evidence.failures(self.arm)
        interval = proportion_interval(failed.total, n, level=self.level)
        if interval is None:
            return [
                self.result(
                    Outcome.INSUFFICIENT,
                    f"no requests of arm {self.arm}",
                    remedy=f"measure arm {self.arm}",
                    threshold=self.max_rate,
                    n=0,
                )
            ]
        shown = ", ".join(failed.first)
        reason = f"{failed.total} of {n} requests failed" + (f" ({shown})" if shown else "")
        reason += f"; at most {self.max_rate:.2%} may"
        if interval.estimate > self.max_rate:
            outcome, remedy = Outcome.FAIL, f"find out why {shown} failed"
        elif n < self.n_min:
            outcome, remedy = Outcome.INSUFFICIENT, f"measure at least {self.n_min} requests"
            reason += f"; too little data, the plan needs {self.n_min} requests"
        else:
            outcome, remedy = Outcome.PASS, ""
        return [
            self.result(
                outcome,
                reason,
                remedy=remedy or None,
                interval=interval,
                threshold=self.max_rate,
            )
        ]
