"""The metrics of a plan: who answers for each, and how far it may move."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from specdecode.governance.strict import Strict, Text


class Bounds(Strict):
    """What a value can be, known before any is measured."""

    low: float = Field(description="smallest possible value")
    high: float | None = Field(description="largest possible value; null when there is none")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.high is not None and self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


class PlanMetric(Strict):
    """One number that is watched, at whatever stage."""

    name: Text = Field(description="as in docs/metrics.md, or of the service's own")
    transform: Literal["none", "ratio", "difference", "indicator"] = Field(
        description="against the baseline (ratio, difference), of the arm alone (none), or "
        "1 where the value keeps `limit` and 0 where it does not (indicator)"
    )
    limit: float | None = Field(None, description="of an indicator: the value to keep")
    bounds: Bounds = Field(description="of the value before its transform")
    direction: Literal["higher", "lower"] = Field(description="which way is better")
    role: Literal["primary", "guardrail", "secondary"] = Field(description="as for rules")
    margin: float | None = Field(
        description="of a ratio or difference: largest loss that still counts as none, negative "
        "for a gain that must be shown; else the value that must not be crossed"
    )
    owner: Text | None = Field(description="who acts when it moves")

    @model_validator(mode="after")
    def _limit_of_an_indicator(self) -> Self:
        if (self.transform == "indicator") != (self.limit is not None):
            raise ValueError("limit belongs to transform: indicator, and to nothing else")
        return self
