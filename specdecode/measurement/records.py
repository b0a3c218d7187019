"""One row of evidence: what one arm did with one prompt, and how it is stored.

`Record` is the row in memory, `RECORD_SCHEMA` the same row in parquet. The two are compared by a
test, so a field cannot exist in only one of them. A missing value is null everywhere: a zero would
be read as a measurement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from specdecode.durable import written_whole
from specdecode.errors import EvidenceError

SCHEMA_NAME = "specdecode.records/1"

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, Field(min_length=1)]
RowKey = tuple[str, str, str]


class Record(BaseModel):
    """One request of one arm. Frozen; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request_id: Text = Field(description="'prompt_id/sampling_name/arm'; unique in a table")
    prompt_id: Text = Field(description="the prompt; the unit (cluster) of every interval")
    arm: Text = Field(description="decoding configuration: plain, token, block, …")
    stage: Text = Field(description="where the row was made: offline, confirmation, shadow, canary")
    profile: Text | None = Field(None, description="run size (full, smoke); null outside offline")
    category: Text | None = Field(None, description="stratum: kind of task; null when unknown")
    difficulty: Text | None = Field(None, description="stratum: difficulty; null when unknown")
    language: Text | None = Field(None, description="stratum: ISO 639-1 code; null when unknown")
    prompt_tokens: Count | None = Field(None, description="length of the prompt in tokens")
    prompt_token_ids: list[Count] | None = Field(
        None, description="prompt as decoded, chat template applied; null when withheld"
    )
    output_tokens: Count | None = Field(
        None, description="visible tokens produced; null when the request failed"
    )
    output_token_ids: list[Count] | None = Field(
        None, description="visible token ids; null when the request failed or they are withheld"
    )
    output_text: str | None = Field(None, description="decoded reply; null when it failed")
    finish_reason: Text | None = Field(
        None, description="'stop' or 'length'; null when the request failed"
    )
    sampling: dict[str, Any] = Field(
        description="sampling parameters and their 'name'; a JSON string in parquet"
    )
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = Field(
        None, description="seed of the request; null when the engine drew none"
    )
    ttft_s: Seconds | None = Field(
        None, description="seconds to the first token; null when none came"
    )
    tpot_s: Seconds | None = Field(
        None,
        description="seconds per output token after the first, (e2e − ttft)/(output_tokens − 1); "
        "null with fewer than two tokens",
    )
    e2e_s: Seconds | None = Field(
        None, description="seconds from start to last token; null on failure"
    )
    draft_s: Seconds | None = Field(
        None, description="seconds spent drafting; null where not split out"
    )
    verify_s: Seconds | None = Field(
        None, description="seconds in target passes and verification; null where not split out"
    )
    other_s: Seconds | None = Field(
        None, description="seconds in everything else; null where not split out"
    )
    steps: Count | None = Field(
        None, description="draft-and-verify steps; null where the engine does not tell"
    )
    drafted: Count | None = Field(
        None, description="draft tokens proposed, those after a rejection too; null if not told"
    )
    accepted: Count | None = Field(None, description="draft tokens accepted; null if not told")
    acceptance_histogram: list[Count] | None = Field(
        None, description="steps by number of accepted draft tokens 0..γ; null if not told"
    )
    target_tokens: Count | None = Field(
        None, description="token rows the target computed after prefill; null if not told"
    )
    peak_rss_bytes: Count | None = Field(
        None, description="peak resident memory of the process so far, bytes; null if unmeasured"
    )
    error: Text | None = Field(None, description="why the request failed; null when it succeeded")
    quality: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        None, description="checker score in [0, 1]; null for prompts without a checker"
    )
    order_index: Count | None = Field(None, description="position in the order of measurement")
    started_at: AwareDatetime | None = Field(
        None, description="start of the request with time zone, stored as UTC"
    )
    manifest_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="SHA-256 of the input manifest the row was measured under"
    )

    @field_validator("sampling", mode="before")
    @classmethod
    def _sampling_object(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"sampling is not JSON: {error}") from error

    @field_validator("started_at")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    @model_validator(mode="after")
    def _counts_agree(self) -> Self:
        if not isinstance(self.sampling.get("name"), str) or not self.sampling["name"]:
            raise ValueError("sampling needs a 'name' such as 'greedy' or 'sampled'")
        for ids, count, label in (
            (self.output_token_ids, self.output_tokens, "output"),
            (self.prompt_token_ids, self.prompt_tokens, "prompt"),
        ):
            if ids is not None and count is not None and len(ids) != count:
                raise ValueError(f"{label}_tokens is {count} but there are {len(ids)} token ids")
        return self

    @property
    def sampling_name(self) -> str:
        """Name of the sampling setting: the middle part of `request_id`."""
        return str(self.sampling["name"])

    @property
    def key(self) -> RowKey:
        """What may occur once in a table: (prompt_id, arm, sampling_name)."""
        return (self.prompt_id, self.arm, self.sampling_name)

    def to_json_line(self) -> str:
        """One JSON object without a line break, keys sorted; `from_json_line` inverts it."""
        fields = self.model_dump(mode="json")
        return json.dumps(fields, sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json_line(cls, line: str) -> Self:
        """Inverse of `to_json_line`.

        Raises:
            EvidenceError: the line is not a record; the message says which field is wrong.
        """
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            raise EvidenceError(f"not a record: {_first_problem(error)}") from error

    def to_row(self) -> dict[str, Any]:
        """The parquet row: as `model_dump`, `sampling` as canonical JSON."""
        row = self.model_dump()
        row["sampling"] = json.dumps(self.sampling, sort_keys=True, ensure_ascii=False)
        return row


_FIELDS: list[pa.Field[Any]] = [
    pa.field("request_id", pa.string(), nullable=False),
    pa.field("prompt_id", pa.string(), nullable=False),
    pa.field("arm", pa.string(), nullable=False),
    pa.field("stage", pa.string(), nullable=False),
    pa.field("profile", pa.string()),
    pa.field("category", pa.string()),
    pa.field("difficulty", pa.string()),
    pa.field("language", pa.string()),
    pa.field("prompt_tokens", pa.int64()),
    pa.field("prompt_token_ids", pa.list_(pa.int32())),
    pa.field("output_tokens", pa.int64()),
    pa.field("output_token_ids", pa.list_(pa.int32())),
    pa.field("output_text", pa.string()),
    pa.field("finish_reason", pa.string()),
    pa.field("sampling", pa.string(), nullable=False),
    pa.field("seed", pa.int64()),
    pa.field("ttft_s", pa.float64()),
    pa.field("tpot_s", pa.float64()),
    pa.field("e2e_s", pa.float64()),
    pa.field("draft_s", pa.float64()),
    pa.field("verify_s", pa.float64()),
    pa.field("other_s", pa.float64()),
    pa.field("steps", pa.int64()),
    pa.field("drafted", pa.int64()),
    pa.field("accepted", pa.int64()),
    pa.field("acceptance_histogram", pa.list_(pa.int64())),
    pa.field("target_tokens", pa.int64()),
    pa.field("peak_rss_bytes", pa.int64()),
    pa.field("error", pa.string()),
    pa.field("quality", pa.float64()),
    pa.field("order_index", pa.int64()),
    pa.field("started_at", pa.timestamp("us", tz="UTC")),
    pa.field("manifest_sha256", pa.string(), nullable=False),
]

RECORD_SCHEMA: pa.Schema = pa.schema(_FIELDS, metadata={"specdecode.schema": SCHEMA_NAME})

STRATA = ("category", "difficulty", "language")
"""Labels that a prompt brings along; whoever judges by stratum judges by these."""

LABELS = ("arm", "stage", "profile", *STRATA, "finish_reason", "sampling", "manifest_sha256")
"""Text columns that hold few different values, whatever the number of rows."""


def to_table(records: Iterable[Record]) -> pa.Table:
    """Records as an arrow table with `RECORD_SCHEMA`, in the order given."""
    return pa.Table.from_pylist([record.to_row() for record in records], schema=RECORD_SCHEMA)


def write_parquet(records: Iterable[Record] | pa.Table, path: Path | str) -> None:
    """Write rows so that a crash leaves either the old file or the complete new one.

    The same rows in the same order give the same bytes.

    Raises:
        EvidenceError: a table does not have the schema of a record.
        OSError: the disk is full or not writable; an existing file is untouched.
    """
    path = Path(path)
    table = checked(records, path) if isinstance(records, pa.Table) else to_table(records)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        pq.write_table(table, file, compression="zstd")


def read_parquet(path: Path | str) -> pa.Table:
    """Read rows written by `write_parquet`, or by others who did not record every column.

    Returns:
        A table with exactly `RECORD_SCHEMA`, columns in its order; an absent column is null.

    Raises:
        EvidenceError: no such file, not a parquet file, a required column is absent, or a column
            is unknown or of another type than a record's.
    """
    path = Path(path)
    if not path.is_file():
        raise EvidenceError(f"{path}: no such file of rows; `make evaluate` measures them")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise EvidenceError(
            f"{path}: cannot be read as parquet ({error}); restore it or measure again"
        ) from error
    return checked(table, path)


def read_records(path: Path | str) -> list[Record]:
    """`read_parquet`, each row validated as a `Record`."""
    return list(to_records(read_parquet(path)))


def to_records(table: pa.Table) -> Iterator[Record]:
    """The rows of a table as records, in order.

    Raises:
        EvidenceError: a value no record may have (NaN, negative seconds); names row and field.
    """
    for index, row in enumerate(table.to_pylist()):
        try:
            yield Record.model_validate(row)
        except ValidationError as error:
            raise EvidenceError(f"row {index} {_labelled(row, error)}") from error


def fault_of_row(row: pa.RecordBatch) -> str | None:
    """What keeps the only row of a batch from being a record: "(request): field: problem"."""
    try:
        [fields] = row.to_pylist()
    except (ValueError, OverflowError) as error:
        return f"started_at: {error}"
    try:
        Record.model_validate(fields)
    except ValidationError as error:
        return _labelled(fields, error)
    return None


def _labelled(row: dict[str, Any], error: ValidationError) -> str:
    return f"({row.get('request_id', '?')}): {_first_problem(error)}"


def checked(table: pa.Table, where: Path | str = "rows") -> pa.Table:
    """The table with exactly `RECORD_SCHEMA`, or an EvidenceError naming what differs.

    A column that may be null and is absent was not measured, so it is filled with nulls.
    """
    wanted, found = set(RECORD_SCHEMA.names), table.column_names
    required = [field.name for field in RECORD_SCHEMA if not field.nullable]
    if missing := [name for name in required if name not in found]:
        raise EvidenceError(f"{where}: columns missing: {', '.join(missing)}")
    if unknown := sorted(set(found) - wanted):
        raise EvidenceError(f"{where}: columns no record has: {', '.join(unknown)}")
    if len(found) != len(set(found)):
        raise EvidenceError(f"{where}: a column occurs twice")
    columns = []
    for field in RECORD_SCHEMA:
        if field.name not in found:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise EvidenceError(
                f"{where}: column {field.name} is {column.type}, not {field.type}: {error}"
            ) from error
        if not field.nullable and column.null_count:
            raise EvidenceError(f"{where}: column {field.name} has {column.null_count} nulls")
    return pa.Table.from_arrays(columns, schema=RECORD_SCHEMA)


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "record"
    return f"{field}: {first['msg']}"
