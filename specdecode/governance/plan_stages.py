"""The stages a change goes through, and what each may spend before it must answer."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specdecode.governance.strict import Positive, Strict, Text

StageName = Literal["offline", "confirmation", "shadow", "canary", "watch"]
LADDER: tuple[StageName, ...] = ("offline", "confirmation", "shadow", "canary", "watch")
LIVE: frozenset[StageName] = frozenset({"shadow", "canary", "watch"})
"""Stages whose requests come from users."""

FIXED_N = frozenset({"fixed-n"})
"""Methods valid for one look at a sample whose size was fixed before: each rule has its own."""

Count = Annotated[int, Field(ge=1)]


class MissingData(Strict):
    """How much may be missing before the rows are no basis for any decision."""

    max_missing_share: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        description="largest share of requests whose row, or whose needed number, is absent in "
        "some arm; more makes the verdict INVALID"
    )


class Window(Strict):
    """How long a stage lasts, where time and not only data ends it."""

    length: Positive = Field(description="in `per`")
    per: Literal["minutes", "hours", "days"] = Field(description="unit of `length`")


class Stage(Strict):
    """One step of the way to all users."""

    name: StageName = Field(description="as in the rows' `stage`")
    rules: list[Text] | None = Field(
        description="rules that `decide` applies to the stage's rows, by name; null: all of them; "
        "[]: none, the stage is judged by its metrics alone"
    )
    metrics: list[Text] = Field(description="metrics watched here, by name")
    method: Literal[
        "fixed-n",
        "betting",
        "empirical-bernstein",
        "beta-binomial",
        "quantile",
        "group-sequential",
        "e-detector",
    ] = Field(description="fixed-n looks once; the others may look again and again")
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        description="chance of a false GO this stage may spend"
    )
    alarm_alpha: Annotated[float, Field(gt=0, lt=0.5)] | None = Field(
        None,
        description="chance of a false alarm this stage may spend, shared by all its alarms; null "
        "for methods that look once",
    )
    unit: Literal["prompt", "request", "conversation"] = Field(
        description="what `n_min` and `n_max` count"
    )
    n_min: Count = Field(description="units before the stage says anything")
    n_max: Count | None = Field(
        description="units after which it must have decided; null for watch, which does not end"
    )
    window: Window | None = Field(description="longest duration; null: only data end the stage")
    missing_data: MissingData | None = Field(description="null: as in the plan")
    prompts_expected: dict[Text, Count] | None = Field(
        None,
        min_length=1,
        description="as in the plan, for this stage's runs; null: as in the plan",
    )
    steps: list[Annotated[float, Field(gt=0, le=1)]] | None = Field(
        None, description="shares of traffic of a canary, rising"
    )

    @property
    def live(self) -> bool:
        """Whether its requests come from users."""
        return self.name in LIVE

    @property
    def sequential(self) -> bool:
        """Whether it may be looked at again and again, so that its metrics are what is judged."""
        return self.method not in FIXED_N

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.n_max is None and self.name != "watch":
            raise ValueError(f"{self.name} needs an n_max: only watch goes on without end")
        if self.n_max is not None and self.n_min > self.n_max:
            raise ValueError(f"n_min {self.n_min} is above n_max {self.n_max}")
        if (self.steps is not None) != (self.name == "canary"):
            raise ValueError("steps belong to the stage canary, and it needs them")
        if self.steps is not None and self.steps != sorted(set(self.steps)):
            raise ValueError(f"steps must rise, found {self.steps}")
        if self.live and self.method in FIXED_N:
            raise ValueError(
                f"{self.name} is looked at again and again, which method {self.method} does not "
                "bear; take betting, beta-binomial or another sequential one"
            )
        if self.sequential and self.rules is None:
            raise ValueError(
                f"{self.name}: the rules of `decide` look once at a fixed n, which is not what "
                f"{self.method} says; name its losslessness rules or give rules: [], and metrics, "
                "or method: fixed-n"
            )
        if self.alarm_alpha is not None and not self.sequential:
            raise ValueError(
                f"{self.name}: alarm_alpha is shared by alarms that look again and again; with "
                f"method {self.method} it must be null"
            )
        if not self.metrics and (self.rules == [] or self.sequential):
            raise ValueError(f"{self.name} has neither rules nor metrics, so nothing judges it")
        return self
