"""The document an explanation is: what the terminal, the page and --json show."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Final = "specdecode.explanation/1"

Origin = Literal["accepted", "resampled", "bonus", "plain"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Assumed = Literal["held", "failed", "unknown"]

MEANING: dict[Origin, str] = {
    "accepted": "drafted, and kept by the target",
    "resampled": "drawn from what the draft left of the target's law, after a rejection",
    "bonus": "drawn from the target's law after a whole block was kept",
    "plain": "the target's own, with nothing drafted for it",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Token(_Part):
    """A token of the reply."""

    token_id: int
    text: str
    origin: Origin
    step: int | None = Field(description="1-based; null for the token the prompt's pass gave")


class Judged(_Part):
    """A draft token, and what decided about it."""

    token_id: int
    text: str
    q: Finite = Field(description="probability the draft gave it")
    p: Finite = Field(description="probability the target gave it")
    coin: Finite = Field(description="the draw that judged it, in [0, 1)")
    running_ratio: Finite = Field(description="p_i = min(1, p_(i-1) * p / q)")
    kept: bool


class Step(_Part):
    """One verify step."""

    step: int
    position: int = Field(description="absolute position of its first draft token")
    drafted: list[Judged]
    accepted: int
    emitted: int = Field(description="tokens that entered the reply")
    stopped: str = Field(description="where and why it stopped, in words")
    draft_s: Finite
    score_s: Finite
    verify_s: Finite
    s_per_token: Finite | None = Field(description="null when it emitted nothing")
    slowest: bool = Field(description="of all steps the one with the most seconds per token")


class Stage(_Part):
    """Seconds of a reply spent in one stage; null: not measured."""

    name: str
    seconds: Finite | None
    share: Finite | None = Field(description="of the whole reply")


class Assumption(_Part):
    """Something that has to hold for speculation to pay, or to be right."""

    name: str
    question: str
    state: Assumed
    words: str = Field(description="the finding, with its numbers")


class Explanation(_Part):
    """A reply read backwards."""

    schema_name: Literal["specdecode.explanation/1"] = Field(SCHEMA, alias="schema")
    request: str
    source: Literal["row", "trace file"]
    summary: str = Field(description="the finding in one or two sentences")
    first_failed: str | None = Field(description="name of the first assumption that failed")
    replayed: bool = Field(description="whether the trace is of the request decoded again")
    reproduced: bool | None = Field(
        description="whether the recorded tokens came out again; null if none were to"
    )
    reproduction: str = Field(description="the same in words")
    verification: str | None
    draft: str | None
    num_speculative_tokens: int | None
    tokens: list[Token]
    steps: list[Step] = Field(description="the last one first")
    stages: list[Stage]
    assumptions: list[Assumption] = Field(description="in the order of the stages")
    speed_ratio: Finite | None = Field(
        description="tokens per second after the first token, against plain decoding"
    )

    def to_json(self) -> dict[str, Any]:
        """JSON-safe document; `Explanation.model_validate` inverts it."""
        return self.model_dump(mode="json", by_alias=True)
