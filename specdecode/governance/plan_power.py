"""What a plan counts on: how often it should reach GO, under which true effects."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from specdecode.governance.plan_live_effects import LiveEffect
from specdecode.governance.strict import Positive, Share, Strict, Text


def _absent(value: object) -> bool:
    return value is None


class ArmEffect(Strict):
    """The truth about one arm, as supposed."""

    speed_ratio: Positive = Field(description="output tokens per second, against the baseline")
    quality_difference: Annotated[float, Field(ge=-1, le=1)] = Field(
        description="mean score, minus the baseline's"
    )
    error_rate: Share = Field(description="chance that a request fails")
    acceptance_length: Annotated[float, Field(ge=1)] = Field(
        description="tokens a step, bonus included"
    )
    biased: Share = Field(description="chance that the audit calls the arm biased")


class Effects(Strict):
    """The truth about all arms, as supposed, and how much single requests scatter around it."""

    arms: dict[Text, ArmEffect] = Field(
        min_length=1, description="by name, every arm but the baseline"
    )
    num_speculative_tokens: Annotated[int, Field(ge=1)] = Field(
        description="γ of arms that leave it to the run's parameters"
    )
    output_tokens: Annotated[int, Field(ge=2)] = Field(description="visible tokens of a reply")
    prompt_spread: Annotated[float, Field(ge=0)] = Field(
        description="standard deviation between prompts of the log speed ratio"
    )
    request_spread: Annotated[float, Field(ge=0)] = Field(
        description="standard deviation of the log seconds per token of one request, any arm"
    )
    quality: Share = Field(description="the baseline's mean score")
    same_score: Share = Field(
        description="share of requests whose score is the same whichever arm replied"
    )
    checked: Share = Field(description="share of prompts with a checker")
    shares: dict[Text, dict[Text, Share]] = Field(
        description="of the values of a stratum among prompts; strata not named here: equal shares"
    )

    # Left out of the plan's JSON where it is null, so that plans without live stages, and seals of
    # them, keep their hash.
    live: dict[Text, LiveEffect] | None = Field(
        None,
        exclude_if=_absent,
        description="of the baseline and each candidate: the truth in live stages; null: none is "
        "simulated",
    )

    def score_changes(self, arm: str) -> tuple[float, float]:
        """Share of requests the arm scores and the baseline does not, and the reverse."""
        differ, shift = 1 - self.same_score, self.arms[arm].quality_difference
        # 1 - 0.9 is a little below 0.1, and what plans state has a few decimals.
        return round((differ + shift) / 2, 12), round((differ - shift) / 2, 12)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, effect in self.arms.items():
            gained, lost = self.score_changes(name)
            if min(gained, lost) < 0 or lost > self.quality or gained > round(1 - self.quality, 12):
                raise ValueError(
                    f"{name}: quality {self.quality:g}, quality_difference "
                    f"{effect.quality_difference:g} and same_score {self.same_score:g} cannot all "
                    "be true of scores that are 0 or 1"
                )
        for by, shares in self.shares.items():
            if abs(sum(shares.values()) - 1) > 1e-6:
                raise ValueError(f"shares of {by} sum to {sum(shares.values()):g}, not to 1")
        return self


class Power(Strict):
    """How likely a GO must be for the plan to be worth its evidence."""

    wanted: Annotated[float, Field(gt=0, lt=1)] = Field(
        description="chance of GO under `effects` that the plan must have"
    )
    effects: Effects = Field(description="what is supposed to be true")
