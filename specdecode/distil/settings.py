"""What a distillation is: every number that its files depend on.

Two sets, because their files are kept apart: drafts of several sizes are trained on the same texts.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

Count = Annotated[int, Field(ge=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def sha256(self) -> str:
        """Digest of all values, hex."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


class SynthesisSettings(_Settings):
    """What the target is made to write."""

    tokens: Count = Field(1_000_000, description="tokens for the target to write, at least")
    held_out: Count = Field(96, description="conversations kept for the evaluation")
    shard: Count = Field(1024, description="conversations stored together; a kill costs one shard")
    lanes: Count = Field(128, description="conversations written side by side")
    user_tokens: Count = Field(64, description="longest user turn")
    reply_tokens: Count = Field(192, description="longest reply")
    temperatures: tuple[float, ...] = Field(
        (1.0, 0.8, 0.6, 1.0), min_length=1, description="in turn, one a conversation"
    )
    kept: Count = Field(64, description="most likely tokens whose probabilities are stored")
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("temperatures", mode="after")
    @classmethod
    def _drawn(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        wrong = [value for value in values if not 1e-4 <= value <= 10]
        if wrong:
            raise ValueError(f"{wrong[0]}: a temperature lies between 0.0001 and 10")
        return values


class TrainingSettings(_Settings):
    """What is trained, and how."""

    layers: Annotated[int, Field(ge=1, le=4)] = Field(2, description="decoder layers of the draft")
    head: Count | None = Field(8192, description="tokens it can propose; null for all")
    passes: Count = Field(4, description="over the texts")
    batch_tokens: Count = Field(4096, description="of a step, at least one conversation")
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    warm_up_steps: Annotated[int, Field(ge=0)] = 50
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    kl_start: Annotated[float, Field(ge=0)] = Field(1.0, description="weight of KL at the start")
    kl_end: Annotated[float, Field(ge=0)] = Field(0.1, description="weight of KL at the end")
    initial_positions: Count = Field(8192, description="on which the start is fitted")
    seed: Annotated[int, Field(ge=0)] = 0
