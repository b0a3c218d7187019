"""What came of the flips: the schema of flips.json, which the report reads (docs/flip.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.flip.catalogue import UNCHANGED
from specdecode.governance import Plan
from specdecode.governance.verdict import Outcome, RuleResult, Status

SCHEMA: Final = "specdecode.flips/1"

Finite = Annotated[float, Field(allow_inf_nan=False)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Metric(_Part):
    """One number of a verdict, beside what the plan asks of it. Null: not measured."""

    rule: str = Field(description="name of the plan's rule, or of the integrity check")
    kind: str = Field(description="kind of the rule, such as speed_ratio")
    arm: str | None = Field(description="arm it judges; null when it concerns all rows")
    stratum: str | None = Field(description="part of the traffic; null for all of it")
    estimate: Finite | None
    low: Finite | None = Field(description="lower end of its interval")
    high: Finite | None = Field(description="upper end of its interval")
    level: Finite | None = Field(description="two-sided level of the interval")
    threshold: Finite | None = Field(description="what the plan asks for")
    side: Literal["at least", "at most"] | None = Field(description="where it has to lie")
    n: int | None = Field(description="prompts behind it")
    outcome: Outcome = Field(description="what the rule found")
    position: Literal["above", "across", "below"] | None = Field(
        description="where the interval lies against the threshold, whatever n; null without one"
    )


class Row(_Part):
    """One evaluation: the unchanged one, or one with an assumption flipped."""

    name: str
    assumption: str = Field(description="what the unchanged evaluation takes for granted")
    change: str = Field(description="what was done instead, in words")
    changed: list[str] = Field(description='parameters that differ, each "key: before -> after"')
    status: Status | None = Field(description="the verdict; null when there is none, see `note`")
    turned: bool | None = Field(
        description="whether the status is another than the unchanged one's; null without either"
    )
    note: str | None = Field(description="why there is no verdict; null when there is one")
    headline: Metric | None = Field(
        description="the plan's first primary rule with an interval: the same in all rows"
    )
    deciding: Metric | None = Field(description="the entry that the status rests on first")
    reasons: list[str] = Field(description="of the verdict, most important first")
    prompts: int | None = Field(description="different prompts measured")
    manifest_sha256: str | None = Field(description="inputs of the rows behind it")
    folder: str | None = Field(description="the scratch copy, from the repository's root")

    @model_validator(mode="after")
    def _a_verdict_or_a_reason(self) -> Self:
        if (self.status is None) == (self.note is None):
            raise ValueError("a row has a status, or a note that says why it has none")
        return self


class Flips(_Part):
    """The table. Its first row is the unchanged evaluation."""

    schema_name: Literal["specdecode.flips/1"] = Field(SCHEMA, alias="schema")
    profile: str = Field(description="size of the runs")
    plan_name: str
    plan_sha256: Digest = Field(description="of the unchanged plan's canonical JSON")
    base_sha256: Digest = Field(description="over code, plan, parameters and prompts of all rows")
    rows: list[Row] = Field(min_length=1)

    @model_validator(mode="after")
    def _the_unchanged_one_first(self) -> Self:
        names = [row.name for row in self.rows]
        if names[0] != UNCHANGED or len(set(names)) < len(names):
            raise ValueError(f"rows: '{UNCHANGED}' comes first, and each flip once; got {names}")
        return self

    def to_json(self) -> dict[str, Any]:
        """JSON-safe document; `Flips.model_validate` inverts it."""
        return self.model_dump(mode="json", by_alias=True)


def with_turns(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows with `turned` set by comparison with the first."""
    rows = list(rows)
    first = rows[0].status
    return [
        row.model_copy(
            update={"turned": None if None in (first, row.status) else row.status != first}
        )
        for row in rows
    ]


def headline_of(entries: list[RuleResult], plan: Plan) -> Metric | None:
    """Returns the plan's first primary rule that has an interval, or None."""
    found = (e for e in entries if e.role == "primary" and e.threshold is not None)
    entry = next((e for e in found if e.kind != "losslessness"), None)
    return None if entry is None else metric_of(entry, plan)


def deciding_of(status: Status, entries: list[RuleResult], plan: Plan) -> Metric | None:
    """Returns the entry a status rests on first, as `decide` ranks them.

    Of several, one with an interval is taken before one without, and primary rules first.
    """
    wanted = {
        Status.INVALID: (Outcome.INVALID,),
        Status.NO_GO: (Outcome.FAIL,),
        Status.INCONCLUSIVE: (Outcome.UNDECIDED, Outcome.INSUFFICIENT, Outcome.NOT_EVALUATED),
        Status.GO: (Outcome.PASS,),
    }[status]
    found = [
        entry
        for entry in entries
        if entry.outcome in wanted and (entry.counts or status is Status.INVALID)
    ]
    if status is Status.GO:
        found = [entry for entry in found if entry.role == "primary"]
    if not found:
        return None
    return metric_of(min(found, key=lambda e: (e.role != "primary", e.low is None)), plan)


def metric_of(entry: RuleResult, plan: Plan) -> Metric:
    """Returns a rule's entry with its side and where its interval lies."""
    side = next((getattr(r, "side", None) for r in plan.rules if r.name == entry.name), None)
    return Metric(
        rule=entry.name,
        kind=entry.kind,
        arm=entry.arm,
        stratum=entry.stratum,
        estimate=entry.estimate,
        low=entry.low,
        high=entry.high,
        level=entry.level,
        threshold=entry.threshold,
        side=side,
        n=entry.n,
        outcome=entry.outcome,
        position=_position(entry.low, entry.high, entry.threshold),
    )


def _position(
    low: float | None, high: float | None, threshold: float | None
) -> Literal["above", "across", "below"] | None:
    if low is None or high is None or threshold is None:
        return None
    if low >= threshold:
        return "above"
    return "below" if high < threshold else "across"
