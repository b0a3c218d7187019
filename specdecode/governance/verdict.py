"""What a decision says: one status, and one entry per rule with the numbers behind it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

VERDICT_SCHEMA = "specdecode.verdict/1"

Finite = Annotated[float, Field(allow_inf_nan=False)]
Role = Literal["integrity", "primary", "guardrail", "secondary"]


class Status(StrEnum):
    """The four answers, in order of precedence: the first that applies is the status."""

    INVALID = "INVALID"
    NO_GO = "NO_GO"
    INCONCLUSIVE = "INCONCLUSIVE"
    GO = "GO"


EXIT_CODES = {Status.GO: 0, Status.NO_GO: 10, Status.INCONCLUSIVE: 11, Status.INVALID: 12}
"""Process exit code of each status."""


class Outcome(StrEnum):
    """What one rule found."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    UNDECIDED = "undecided"
    INSUFFICIENT = "insufficient"
    INVALID = "invalid"
    NOT_EVALUATED = "not_evaluated"


class RuleResult(BaseModel):
    """One rule applied to one arm (and stratum). Numbers without data are null."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="name of the plan's rule or metric, or of the integrity check")
    kind: str = Field(description="kind of rule, or method of a metric: how it was computed")
    role: Role = Field(description="integrity, primary, guardrail; secondary never decides")
    arm: str | None = Field(None, description="arm judged; null when it concerns all rows")
    stratum: str | None = Field(
        None, description="such as 'category=chat' or 'step=0.05'; null for all rows"
    )
    estimate: Finite | None = Field(None, description="the number judged")
    low: Finite | None = Field(None, description="lower end of its interval")
    high: Finite | None = Field(None, description="upper end of its interval")
    level: Finite | None = Field(None, description="two-sided level of the interval")
    threshold: Finite | None = Field(None, description="what the plan asks for")
    n: int | None = Field(
        None,
        description="prompts (for error rates: requests; of a live stage its units) behind it",
    )
    outcome: Outcome = Field(description="what the rule found")
    reason: str = Field(description="the finding in plain words")
    remedy: str | None = Field(None, description="what would change it; null when it passed")
    counts: bool = Field(True, description="false when a poor outcome is reported only")
    decided_at: int | None = Field(
        None,
        description="of a metric judged look by look: units after which the outcome was reached "
        "for good; null for every other entry, and while it may still change",
    )


class Verdict(BaseModel):
    """The decision on one plan and one set of rows. Holds no clock: same input, same bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_name: str = Field(VERDICT_SCHEMA, serialization_alias="schema")
    status: Status = Field(description="GO, NO_GO, INCONCLUSIVE or INVALID")
    plan_name: str = Field(description="name of the plan")
    plan_sha256: str = Field(description="SHA-256 of the plan's canonical JSON")
    claim: str = Field(description="what the plan set out to show")
    owner: str = Field(description="who owns the decision")
    manifest_sha256: str | None = Field(description="inputs of the rows; null when unknown")
    rows_sha256: str | None = Field(description="digest of the rows; null when unreadable")
    rows: int = Field(description="rows read")
    prompts: int = Field(description="different prompts among them")
    reasons: list[str] = Field(description="why this status, most important first")
    to_change: list[str] = Field(description="what would change this verdict")
    reopen_when: list[str] = Field(
        description="from the plan: what would have to change for another answer"
    )
    overturned_by: list[str] = Field(description="from the plan: findings against the claim")
    rules: list[RuleResult] = Field(description="every rule, in the plan's order")

    @property
    def exit_code(self) -> int:
        """0 GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID."""
        return EXIT_CODES[self.status]

    def to_json(self) -> dict[str, Any]:
        """JSON-safe document; equal verdicts give equal documents."""
        return self.model_dump(mode="json", by_alias=True)

    def to_bytes(self) -> bytes:
        """`to_json` as indented UTF-8 text: what is written and hashed."""
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        return (text + "\n").encode("utf-8")
