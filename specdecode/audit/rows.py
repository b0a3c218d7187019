"""Recorded outputs made ready for judging: checked, ordered, and complete at their ends."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, Protocol

from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError, DataValidationError

# A record names its sampling setting; the name is not a sampling parameter.
_NOT_PARAMETERS = {"name"}

Kind = Literal["greedy", "sampled"]
Identity = tuple[Hashable, ...]


class Vocabulary(Protocol):
    """What the checks need to know of the target."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def eos_token_ids(self) -> Collection[int]:
        """Ids that end a reply."""

    @property
    def max_context(self) -> int | None:
        """Longest prompt plus output, or None where there is no limit."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids."""


@dataclass(frozen=True)
class AuditRow:
    """One output to judge.

    Attributes:
        label: how messages name the row (prompt id if there is one, and its place in the input).
        prompt_id: None when the record has none.
        prompt: prompt token ids.
        output: emitted token ids in order, the end token included when one was drawn.
        params: sampling parameters the output was requested with.
        finish_reason: "stop", "length" or None when not recorded.
        order_index: place in the recorded order, or None.
    """

    label: str
    prompt_id: str | None
    prompt: list[int]
    output: list[int]
    params: SamplingParams
    finish_reason: str | None
    order_index: int | None


@dataclass(frozen=True)
class RowSet:
    """Rows to judge, and the ones left out with the reason why.

    Attributes:
        rows: in recorded order (order_index when present, else input order).
        total: number of rows read.
        errors: rows that carry an error: (label, reason).
        unjudged: rows without an error whose output, or the end of it, is withheld. What is left
            out may be just what would have told against the engine, so none may be passed over.
        requested: kinds of sampling that the records asked for, errors included.
        drafted: whether some record says that tokens were drafted for it.
    """

    rows: list[AuditRow]
    total: int
    errors: list[tuple[str, str]]
    unjudged: list[tuple[str, str]]
    requested: frozenset[Kind]
    drafted: bool


def read_rows(records: Iterable[Mapping[str, Any]], vocabulary: Vocabulary) -> RowSet:
    """Checks and orders records.

    Args:
        records: mappings with prompt_token_ids, output_token_ids and sampling (a mapping or its
            JSON text); optional prompt_id, finish_reason, order_index, error, drafted.
        vocabulary: of the target.

    Raises:
        DataValidationError: a field is missing or malformed, a token id is outside the vocabulary,
            a sampling key is unknown, a row occurs twice; names the row.
    """
    rows: list[AuditRow] = []
    errors: list[tuple[str, str]] = []
    unjudged: list[tuple[str, str]] = []
    requested: set[Kind] = set()
    seen: dict[Identity, str] = {}
    total, drafted = 0, False
    for index, record in enumerate(records):
        total += 1
        drafted = drafted or bool(record.get("drafted"))
        label = _label(record, index)
        params = _params(record, label)
        requested.add("greedy" if params.is_greedy else "sampled")
        if record.get("error"):
            errors.append((label, str(record["error"])))
            continue
        if "output_token_ids" in record and record["output_token_ids"] is None:
            unjudged.append((label, "neither an output nor an error was recorded"))
            continue
        parsed = _parse(record, label, params, vocabulary)
        row, problem = _with_its_end(parsed, vocabulary)
        if problem is None and not row.output:
            problem = "the output is empty and no error was recorded"
        if problem is not None:
            unjudged.append((label, problem))
            continue
        first = seen.setdefault(_identity(record, parsed), label)
        if first != label:
            raise DataValidationError(
                f"{label}: repeats {first}; a copy is not new evidence. Leave it out, or, if it is "
                "another sample of the same prompt, record its order_index"
            )
        rows.append(row)
    return RowSet(_in_order(rows), total, errors, unjudged, frozenset(requested), drafted)


def _label(record: Mapping[str, Any], index: int) -> str:
    prompt_id = record.get("prompt_id")
    return f"row {index}" if prompt_id is None else f"row {index} ({prompt_id})"


def _identity(record: Mapping[str, Any], row: AuditRow) -> Identity:
    """What two rows share only if one is a copy of the other.

    Where the order is recorded it tells samples of one prompt apart; else their outputs have to.
    """
    return (
        tuple(row.prompt) if row.prompt_id is None else row.prompt_id,
        row.params.model_dump_json(),
        repr(record.get("seed")),
        row.order_index,
        tuple(row.output) if row.order_index is None or row.prompt_id is None else None,
    )


def _parse(
    record: Mapping[str, Any], label: str, params: SamplingParams, vocabulary: Vocabulary
) -> AuditRow:
    prompt = _token_ids(record, "prompt_token_ids", label, vocabulary.vocab_size)
    output = _token_ids(record, "output_token_ids", label, vocabulary.vocab_size)
    if not prompt:
        raise DataValidationError(f"{label}: prompt_token_ids is empty; there is no context")
    limit = vocabulary.max_context
    if limit is not None and len(prompt) + len(output) > limit:
        raise DataValidationError(
            f"{label}: {len(prompt)} prompt and {len(output)} output tokens exceed the target's "
            f"context of {limit}; an engine that cut the prompt must record the cut prompt"
        )
    prompt_id = record.get("prompt_id")
    return AuditRow(
        label=label,
        prompt_id=None if prompt_id is None else str(prompt_id),
        prompt=prompt,
        output=output,
        params=params,
        finish_reason=record.get("finish_reason"),
        order_index=_order_index(record, label),
    )


def _token_ids(record: Mapping[str, Any], field: str, label: str, vocab_size: int) -> list[int]:
    values = record.get(field)
    if values is None or isinstance(values, str | bytes):
        raise DataValidationError(f"{label}: {field} is missing; the audit works on token ids")
    # An array, or its like, knows itself as a list; a set or mapping has no order to judge.
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, Sequence):
        raise DataValidationError(
            f"{label}: {field} must be a list of token ids, not {type(values).__name__}"
        )
    ids = []
    for position, value in enumerate(values):
        if not _is_integer(value):
            raise DataValidationError(
                f"{label}: {field}[{position}] is {value!r} ({type(value).__name__}); "
                "a token id is an integer"
            )
        ids.append(int(value))
    for position, token in enumerate(ids):
        if not 0 <= token < vocab_size:
            raise DataValidationError(
                f"{label}: {field}[{position}] is {token}, outside the target's vocabulary of "
                f"{vocab_size}; were the rows made by another tokenizer?"
            )
    return ids


def _order_index(record: Mapping[str, Any], label: str) -> int | None:
    order = record.get("order_index")
    if order is None:
        return None
    if not _is_integer(order):
        raise DataValidationError(
            f"{label}: order_index is {order!r} ({type(order).__name__}), not an integer"
        )
    return int(order)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _params(record: Mapping[str, Any], label: str) -> SamplingParams:
    sampling = record.get("sampling")
    if isinstance(sampling, str):
        try:
            sampling = json.loads(sampling)
        except json.JSONDecodeError as error:
            raise DataValidationError(f"{label}: sampling is not JSON: {error}") from error
    if not isinstance(sampling, Mapping):
        raise DataValidationError(f"{label}: sampling is missing; it must hold the parameters")
    fields = {key: value for key, value in sampling.items() if key not in _NOT_PARAMETERS}
    unknown = sorted(set(fields) - set(SamplingParams.model_fields))
    if unknown:
        raise DataValidationError(
            f"{label}: sampling has unknown keys {unknown}; a parameter the audit does not apply "
            "would make a correct engine look wrong"
        )
    try:
        return SamplingParams(**fields)
    except ConfigError as error:
        raise DataValidationError(f"{label}: {error}") from error


def _with_its_end(row: AuditRow, vocabulary: Vocabulary) -> tuple[AuditRow, str | None]:
    """Restores an unrecorded end token, or says why the row cannot be judged.

    Leaving out a token because of what it was is selection: the tokens that remain no longer follow
    the target's distribution although the engine is right.
    """
    ended = row.finish_reason == "stop"
    eos = set(vocabulary.eos_token_ids)
    if not ended or (row.output and row.output[-1] in eos):
        return row, None
    if row.params.stop and any(s in vocabulary.decode(row.output) for s in row.params.stop):
        return row, None
    if row.params.stop:
        return row, (
            "finish_reason is 'stop' but neither a stop string nor an end token is in "
            "output_token_ids, so tokens were removed from the end"
        )
    if len(eos) != 1:
        return row, (
            "finish_reason is 'stop', the end token is not recorded and the target has "
            f"{len(eos)} of them; record the end token in output_token_ids"
        )
    return replace(row, output=[*row.output, *eos]), None


def _in_order(rows: list[AuditRow]) -> list[AuditRow]:
    with_index = [row for row in rows if row.order_index is not None]
    if not with_index:
        return rows
    if len(with_index) < len(rows):
        missing = next(row for row in rows if row.order_index is None)
        raise DataValidationError(
            f"{missing.label}: order_index is missing while other rows have one; evidence is "
            "accumulated in recorded order, so either all rows carry it or none"
        )
    return sorted(rows, key=lambda row: row.order_index or 0)
