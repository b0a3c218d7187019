"""Sampling parameters of one request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from specdecode.errors import ConfigError


class SamplingParams(BaseModel):
    """How tokens are drawn from the target's distribution and where a reply ends.

    The law of the next token is made in this order: logit bias, repetition, presence and frequency
    penalty, temperature, top-k, top-p, min-p. Every step acts on every verified position with that
    position's own history.

    `logprobs` reports the model's own law, the softmax of its raw logits before any of these steps:
    values then compare across requests with different parameters, and a token is never reported
    with probability 1 because a filter left nothing else (see `specdecode.decoding.logprobs`).

    `n` asks for independent replies to the same prompt, which is processed once. Reply 0 is the one
    that n=1 gives with the same seed. Greedy decoding would give n equal replies; it is refused,
    since asking for them is a mistake that costs n times the work.

    Raises:
        ConfigError: naming the parameter and the allowed range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(64, ge=1, description="most tokens in the reply")
    temperature: float = Field(1.0, ge=0, description="0 decodes greedily; else at least 1e-4")
    top_k: int = Field(0, ge=0, description="keep the k most likely tokens; 0 keeps all")
    top_p: float = Field(1.0, gt=0, le=1, description="keep the smallest set of this probability")
    min_p: float = Field(0.0, ge=0, le=1, description="keep tokens of min_p x the top probability")
    repetition_penalty: float = Field(
        1.0, gt=0, description="divides (or multiplies negative) logits of seen tokens"
    )
    presence_penalty: float = Field(0.0, description="subtracted once per token in the reply")
    frequency_penalty: float = Field(0.0, description="subtracted per occurrence in the reply")
    logit_bias: dict[int, float] | None = Field(None, description="added to single logits, by id")
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="strings that end the reply; not part of its text"
    )
    ignore_eos: bool = Field(default=False, description="go on after an end-of-reply token")
    seed: int | None = Field(None, ge=0, lt=2**63, description="None draws one and reports it")
    logprobs: int = Field(
        0, ge=0, le=20, description="report each token's log-probability and the k likeliest; 0: no"
    )
    n: int = Field(1, ge=1, le=64, description="independent replies to the prompt")

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise ConfigError(
                f"sampling parameter '{name}': {first['msg']} (got {first['input']!r})"
            ) from error

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some parameters changed, checked like new ones.

        Raises:
            ConfigError: naming the parameter and the allowed range.
        """
        del deep  # values are copied whenever they are checked
        return type(self)(**{**self.model_dump(exclude_unset=True), **(update or {})})

    @field_validator("stop", mode="before")
    @classmethod
    def _one_string_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator(
        "temperature", "repetition_penalty", "presence_penalty", "frequency_penalty", mode="after"
    )
    @classmethod
    def _finite(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError("must be a finite number")
        return value

    @field_validator("temperature", mode="after")
    @classmethod
    def _divisible(cls, value: float) -> float:
        if 0 < value < 1e-4:
            raise ValueError(
                "must be 0 (greedy) or at least 1e-4: a float cannot hold the quotient"
            )
        return value

    @field_validator("logit_bias", mode="after")
    @classmethod
    def _finite_biases(cls, value: dict[int, float] | None) -> dict[int, float] | None:
        wrong = [token for token, bias in (value or {}).items() if not math.isfinite(bias)]
        if wrong:
            raise ValueError(f"the bias of token {wrong[0]} must be finite (-1e4 bans a token)")

        return value

    @field_validator("n", mode="after")
    @classmethod
    def _distinct_replies(cls, value: int, info: ValidationInfo) -> int:
        if value > 1 and info.data.get("temperature") == 0:
            raise ValueError("greedy decoding gives equal replies: set n=1 or a temperature")
        return value

    @property
    def is_greedy(self) -> bool:
        """Whether the next token is the most likely one rather than drawn."""
        return self.temperature == 0

    @property
    def needs_history(self) -> bool:
        """Whether earlier tokens change the law of the next one beyond the model itself."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )
