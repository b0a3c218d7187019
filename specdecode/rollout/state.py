"""What a router does with live traffic at this moment, and who said so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

STATE_SCHEMA: Final = "specdecode.rollout/1"

Mode = Literal["off", "shadow", "canary", "full"]
Stage = Literal["shadow", "canary", "watch"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(min_length=1, max_length=500)]

STAGE_OF: dict[Mode, Stage] = {"shadow": "shadow", "canary": "canary", "full": "watch"}
"""The stage of the plan that rows of a mode belong to; in mode "off" nothing is under judgement."""


class RolloutState(BaseModel):
    """One state of a router. Frozen; the next one is another object with the next version.

    Attributes:
        version: 0 at first, one more with each change; whoever changes names the one they saw.
        mode: "off" passes everything to the baseline and records nothing; "shadow" answers from
            the baseline and copies a share to the candidate; "canary" answers a share from the
            candidate; "full" answers everything from it, with the baseline as fallback.
        share: of requests that are copied (shadow) or answered by the candidate (canary).
        manifest_sha256: what is under judgement; every row carries it. Needed in all modes but
            "off".
        changed_at: when.
        changed_by: who, as the caller said; "router" for its own changes.
        reason: why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_name: Literal["specdecode.rollout/1"] = Field(STATE_SCHEMA, alias="schema")
    version: Annotated[int, Field(ge=0)] = 0
    mode: Mode = "off"
    share: Share = 0.0
    manifest_sha256: Sha256 | None = None
    changed_at: AwareDatetime = datetime(1970, 1, 1, tzinfo=UTC)
    changed_by: Text = "router"
    reason: Text = "nothing was decided yet"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mode == "off" and self.share != 0:
            raise ValueError("mode off has share 0")
        if self.mode == "full" and self.share != 1:
            raise ValueError("mode full has share 1; a smaller share is mode canary")
        if self.mode != "off" and self.manifest_sha256 is None:
            raise ValueError(f"mode {self.mode} needs a manifest_sha256: rows say what they judge")
        return self

    @property
    def stage(self) -> Stage | None:
        """The stage of the plan that rows belong to; None in mode "off"."""
        return STAGE_OF.get(self.mode)

    @property
    def step(self) -> str | None:
        """The canary's step as rows name it (`profile`): "0.05"; None in other modes."""
        return f"{self.share:g}" if self.mode == "canary" else None
