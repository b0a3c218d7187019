"""What is known of a reply before anything is decoded again: a row of evidence, or a trace file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from specdecode.decoding.trace import StepTrace
from specdecode.errors import ConfigError
from specdecode.measurement.records import Record, read_parquet, to_records

PLAIN, SPECULATIVE = "plain", "speculative"


@dataclass(frozen=True)
class Recorded:
    """A reply as it was recorded. Null where the record does not tell.

    Attributes:
        request: id of the row, or path of the file.
        source: which of the two.
        token_ids: the reply; null for a request that failed.
        text: the reply as text.
        sampling: parameters it was decoded with, without the seed.
        seed: the seed in force.
        prompt_token_ids: what was decoded from.
        drafting: whether tokens were drafted for it.
        verification: name of the verification rule; of a row, what its arm is called.
        draft: what proposed tokens.
        num_speculative_tokens: most draft tokens a step, γ.
        ttft_s: seconds to the first token.
        e2e_s: seconds to the last one.
        plain_tpot_s: seconds per token of plain decoding of the same prompt, from beside it.
        steps: the trace; null where none was kept.
        target: source of the target model.
        error: why the request failed; null if it did not.
        draft_failure: why drafting ended before the reply did; null if it did not.
    """

    request: str
    source: Literal["row", "trace file"]
    token_ids: tuple[int, ...] | None
    text: str | None
    sampling: Mapping[str, Any]
    seed: int | None
    prompt_token_ids: tuple[int, ...] | None
    drafting: bool
    verification: str | None
    draft: str | None
    num_speculative_tokens: int | None
    ttft_s: float | None
    e2e_s: float | None
    plain_tpot_s: float | None
    steps: tuple[StepTrace, ...] | None
    target: str | None
    error: str | None
    draft_failure: str | None

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; null without times, or with fewer than two tokens."""
        if self.ttft_s is None or self.e2e_s is None or len(self.token_ids or ()) < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (len(self.token_ids or ()) - 1)


def from_rows(path: Path, request_id: str) -> Recorded:
    """The row called `request_id`.

    Raises:
        EvidenceError: no such file, or one that holds no records.
        ConfigError: the file has no such row, or several; the message names some that it has.
    """
    table = read_parquet(path)
    found = list(to_records(table.filter(pc.field("request_id") == request_id)))
    if len(found) != 1:
        raise ConfigError(
            f"{path}: {len(found) or 'no'} rows are called {request_id!r}; "
            + _like(request_id, table)
        )
    row = found[0]
    prompt = table.filter(pc.field("prompt_id") == row.prompt_id)
    beside = [r for r in to_records(prompt) if _is_plain_beside(r, row)]
    histogram = row.acceptance_histogram
    return Recorded(
        request=request_id,
        source="row",
        token_ids=None if row.output_token_ids is None else tuple(row.output_token_ids),
        text=row.output_text,
        sampling={key: value for key, value in row.sampling.items() if key != "name"},
        seed=row.seed,
        prompt_token_ids=None if row.prompt_token_ids is None else tuple(row.prompt_token_ids),
        drafting=row.arm != PLAIN,
        verification=None if row.arm == PLAIN else row.arm,
        draft=None,
        num_speculative_tokens=len(histogram) - 1 if histogram and row.drafted else None,
        ttft_s=row.ttft_s,
        e2e_s=row.e2e_s,
        plain_tpot_s=beside[0].tpot_s if len(beside) == 1 else None,
        steps=None,
        target=None,
        error=row.error,
        draft_failure=None,
    )


def _is_plain_beside(record: Record, row: Record) -> bool:
    same = (record.prompt_id, record.sampling_name) == (row.prompt_id, row.sampling_name)
    return same and record.arm == PLAIN and row.arm != PLAIN


def _like(request_id: str, table: pa.Table) -> str:
    """Ids of the same prompt, else the first ones."""
    prompt = request_id.split("/", maxsplit=1)[0]
    same = table.filter(pc.field("prompt_id") == prompt)
    shown = (same if same.num_rows else table)["request_id"][:6].to_pylist()
    return (
        f"there are for example: {', '.join(map(str, shown))}"
        if shown
        else "the file has no rows at all"
    )


def from_trace_file(path: Path) -> Recorded:
    """The speculative reply of a document that `specdecode generate --trace --json` wrote.

    Raises:
        ConfigError: the file cannot be read, or is no such document, or has no trace.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON ({error})") from error
    try:
        replies = document["replies"]
        reply = replies.get(SPECULATIVE) or replies[PLAIN]
        steps = None if reply["trace"] is None else tuple(_step(step) for step in reply["trace"])
        plain = replies.get(PLAIN) if SPECULATIVE in replies else None
        recorded = Recorded(
            request=str(path),
            source="trace file",
            token_ids=tuple(int(token) for token in reply["token_ids"]),
            text=reply["text"],
            sampling={k: v for k, v in document["sampling"].items() if k != "seed"},
            seed=reply["seed"],
            prompt_token_ids=None,
            drafting=document["draft"] is not None,
            verification=document["verification"],
            draft=document["draft"],
            num_speculative_tokens=_length(document["num_speculative_tokens"], steps),
            ttft_s=reply["ttft_s"],
            e2e_s=reply["e2e_s"],
            plain_tpot_s=None if plain is None else plain["tpot_s"],
            steps=steps,
            target=document["target"],
            error=None,
            draft_failure=reply["draft_failure"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{path}: not what `specdecode generate --trace --json` writes ({_told(error)})"
        ) from error
    if recorded.steps is None:
        raise ConfigError(
            f"{path}: has no trace; write it with `specdecode generate … --trace --json`"
        )
    return recorded


_STEP = TypeAdapter(StepTrace)


def _step(entry: Mapping[str, Any]) -> StepTrace:
    step = _STEP.validate_python(entry)
    lengths = {
        len(many)
        for many in (step.draft_tokens, step.draft_probs, step.target_probs, step.accept_coins)
    }
    if len(lengths) > 1 or not 0 <= step.num_accepted <= len(step.draft_tokens):
        raise ValueError(f"step {step.step} does not add up")
    return step


def _told(error: Exception) -> str:
    """A problem on one short line; of a missing key, its name says nothing without its kind."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 160 else text[:157] + "…"


def _length(given: object, steps: Sequence[StepTrace] | None) -> int | None:
    """γ; of an adaptive length the longest block."""
    if isinstance(given, int):
        return given
    return max((len(step.draft_tokens) for step in steps or ()), default=None)
