"""Recorded outputs made ready for judging: checked, ordered, and complete at their ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from specdecode.audit.places import FAIR_RULES, steps_of
from specdecode.audit.refusals import (
    BEGINS_WITH_BOS,
    FEWEST_WITH_BOS,
    ONLY_TEXT,
    refused,
    with_its_end,
)
from specdecode.audit.row import AuditRow, Vocabulary
from specdecode.audit.store import RowStore
from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError, DataValidationError

__all__ = ["AuditRow", "RowReader", "RowSet", "Vocabulary", "read_rows"]

# A record names its sampling setting; the name is not a sampling parameter.
_NOT_PARAMETERS = {"name"}
_STRATA = ("category", "difficulty", "language")
# Rows left out are counted, and so many are told one by one: memory must not grow with the file.
MOST_LISTED = 1000

Kind = Literal["greedy", "sampled"]
Identity = tuple[Hashable, ...]


@dataclass(frozen=True)
class RowSet:
    """Rows to judge, and the ones left out with the reason why.

    Attributes:
        rows: in recorded order (order_index when present, else input order).
        total: number of rows read.
        errors: rows that carry an error: (label, reason), the first `MOST_LISTED`.
        unjudged: rows without an error whose output, or the end of it, is withheld, likewise. What
            is left out may be just what would have told against the engine, so none may be passed
            over.
        requested: kinds of sampling that the records asked for, errors included.
        drafted: whether some record says that tokens were drafted for it.
        stepped: whether some row has a trace whose places can be looked at.
        error_count: how many rows carry an error.
        why_unjudged: how many rows could not be judged, by reason.
    """

    rows: RowStore
    total: int
    errors: list[tuple[str, str]]
    unjudged: list[tuple[str, str]]
    requested: frozenset[Kind]
    drafted: bool
    stepped: bool
    error_count: int
    why_unjudged: Mapping[str, int]


def read_rows(records: Iterable[Mapping[str, Any]], vocabulary: Vocabulary) -> RowSet:
    """Checks and orders records.

    Args:
        records: mappings with prompt_token_ids (or prompt: text, or messages: chat),
            output_token_ids and sampling (a mapping or its JSON text); optional prompt_id,
            finish_reason, order_index, error, drafted, prompt_tokens, output_tokens, output_text,
            category, difficulty, language, trace and verification.
        vocabulary: of the target.

    Raises:
        DataValidationError: a field is missing or malformed, a token id is outside the vocabulary,
            a sampling key is unknown, a row occurs twice; names the row.
    """
    reader = RowReader(vocabulary)
    for record in records:
        reader.add(record)
    return reader.finish()


class RowReader:
    """`read_rows` one record at a time, in bounded memory.

    Args:
        vocabulary: of the target.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._rows = RowStore()
        self._errors: list[tuple[str, str]] = []
        self._unjudged: list[tuple[str, str]] = []
        self._requested: set[Kind] = set()
        self._total = self._error_count = self._with_bos = 0
        self._drafted = self._stepped = False
        self._why: Counter[str] = Counter()

    def add(self, record: Mapping[str, Any]) -> None:
        """Checks and keeps one record; raises what `read_rows` does."""
        label = _label(record, self._total)
        self._total += 1
        self._drafted = self._drafted or bool(record.get("drafted"))
        params = _params(record, label)
        self._requested.add("greedy" if params.is_greedy else "sampled")
        if record.get("error"):
            self._error_count += 1
            if len(self._errors) < MOST_LISTED:
                self._errors.append((label, str(record["error"])))
            return
        if problem := _nothing_to_judge(record):
            self._leave_out(label, problem)
            return
        parsed = _parse(record, label, params, self._vocabulary)
        problem = refused(record, parsed, self._vocabulary)
        row = parsed
        if problem is None:
            row, problem = with_its_end(parsed, self._vocabulary)
        if problem is None and not row.output:
            problem = "the output is empty and no error was recorded"
        if problem is not None:
            self._leave_out(label, problem)
            return
        first = self._rows.add(row, _identity(record, parsed))
        if first is not None:
            raise DataValidationError(
                f"{label}: repeats {first}; a copy is not new evidence. Leave it out, or, if it is "
                "another sample of the same prompt, record its order_index"
            )
        self._stepped = self._stepped or (bool(row.steps) and row.rule in FAIR_RULES)
        self._with_bos += row.output[0] == getattr(self._vocabulary, "bos_token_id", None)

    def finish(self) -> RowSet:
        """All rows, in order."""
        missing = self._rows.first_without_order()
        if missing is not None:
            raise DataValidationError(
                f"{missing}: order_index is missing while other rows have one; evidence is "
                "accumulated in recorded order, so either all rows carry it or none"
            )
        self._rows.arrange()
        if self._with_bos == len(self._rows) >= FEWEST_WITH_BOS:
            for row in self._rows:
                self._leave_out(row.label, BEGINS_WITH_BOS)
            self._rows.clear()
        return RowSet(
            rows=self._rows,
            total=self._total,
            errors=self._errors,
            unjudged=self._unjudged,
            requested=frozenset(self._requested),
            drafted=self._drafted,
            stepped=self._stepped,
            error_count=self._error_count,
            why_unjudged=self._why,
        )

    def _leave_out(self, label: str, why: str) -> None:
        self._why[why] += 1
        if len(self._unjudged) < MOST_LISTED:
            self._unjudged.append((label, why))


def _nothing_to_judge(record: Mapping[str, Any]) -> str | None:
    if record.get("output_token_ids") is not None:
        return None
    if record.get("output_text"):
        return ONLY_TEXT
    if "output_token_ids" in record:
        return "neither an output nor an error was recorded"
    return None  # malformed, and said so where tokens are read


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
    prompt = _prompt(record, label, vocabulary)
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
        strata={name: str(record[name]) for name in _STRATA if record.get(name) is not None},
        steps=steps_of(record, output, label),
        rule=None if record.get("verification") is None else str(record["verification"]),
    )


def _prompt(record: Mapping[str, Any], label: str, vocabulary: Vocabulary) -> list[int]:
    """Recorded ids, or those of the prompt's text or messages under the target's own template."""
    given = record.get("messages") or record.get("prompt")
    if record.get("prompt_token_ids") is not None or given is None:
        return _token_ids(record, "prompt_token_ids", label, vocabulary.vocab_size)
    if isinstance(given, str) and record.get("messages"):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise DataValidationError(f"{label}: messages is not JSON: {error}") from error
    try:
        return vocabulary.encode(given, f"{label}: the prompt")
    except ConfigError as error:
        raise DataValidationError(str(error)) from error


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
    if abs(int(order)) >= 2**63:
        raise DataValidationError(f"{label}: order_index is {order}, beyond 64 bits")
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
