"""An observation as a row of the project's schema, and what the schema has no place for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from specdecode.measurement.records import Record
from specdecode.workload.load.body import seed_of
from specdecode.workload.load.faults import CANCELLED
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.request import Request
from specdecode.workload.load.spec import LoadSpec

STAGE = "load"


def request_id(spec: LoadSpec, request: Request) -> str:
    """As in every record: prompt, sampling setting, arm."""
    return f"{request.prompt_id}/{request.sampling.name}/{spec.arm}"


def asked_fields(
    spec: LoadSpec, request: Request, manifest_sha256: str, due_at: datetime
) -> dict[str, Any]:
    """Fields of a record that are known before there is an answer.

    Args:
        spec: of the run.
        request: what is asked.
        manifest_sha256: of the run.
        due_at: when the request was due; latencies count from there.
    """
    seed = seed_of(spec, request)
    return {
        "request_id": request_id(spec, request),
        "prompt_id": request.prompt_id,
        "arm": spec.arm,
        "stage": STAGE,
        "category": request.category,
        "difficulty": request.difficulty,
        "language": request.language,
        "sampling": request.sampling.record(request.max_tokens, seed),
        "seed": seed,
        "order_index": request.index,
        "started_at": due_at,
        "manifest_sha256": manifest_sha256,
    }


def record_of(
    asked: Mapping[str, Any],
    seen: Observation,
    spec: LoadSpec,
    acceptance: Mapping[str, Any] | None = None,
) -> Record:
    """The row. A failed or cancelled request has its reason and no latencies.

    Args:
        asked: of `asked_fields`.
        seen: the exchange.
        spec: of the run.
        acceptance: steps, drafted, accepted, acceptance_histogram; None when nothing was told.
    """
    if seen.status != "ok":
        return Record(**asked, prompt_tokens=seen.prompt_tokens, error=reason(seen))
    tokens = seen.output_tokens
    ids = seen.token_ids if seen.token_ids is not None and len(seen.token_ids) == tokens else None
    prompt_ids = seen.prompt_token_ids
    if prompt_ids is not None and len(prompt_ids) != seen.prompt_tokens:
        prompt_ids = None  # counts and ids disagree, so one of them is wrong
    return Record(
        **asked,
        prompt_tokens=seen.prompt_tokens,
        prompt_token_ids=prompt_ids,
        output_tokens=tokens,
        output_token_ids=ids,
        output_text="".join(seen.text) if spec.keep_text else None,
        finish_reason=seen.finish_reason,
        ttft_s=seen.ttft_s,
        tpot_s=seen.tpot_s,
        e2e_s=seen.e2e_s,
        **(acceptance or {}),
    )


def reason(seen: Observation) -> str:
    """Why there is no whole reply: "class: detail", the class first, so that it can be counted."""
    if seen.fault is not None:
        kind, detail = seen.fault
        return f"{kind}: {detail}" if detail else kind
    return f"{CANCELLED}: closed by the client after {len(seen.chunk_times)} chunks, as planned"


def details_of(request: Request, identifier: str, seen: Observation) -> dict[str, Any]:
    """Everything a load run knows of a request, JSON-safe; times in seconds since the start."""
    gaps = seen.token_gaps_s
    return {
        "request_id": identifier,
        "index": request.index,
        "warm_up": request.warm_up,
        "status": seen.status,
        "error_class": None if seen.fault is None else seen.fault[0],
        "error": None if seen.status == "ok" else reason(seen),
        "http_status": seen.status_code,
        "retry_after": seen.retry_after,
        "due_s": _rounded(seen.due),
        "sent_s": _rounded(seen.sent),
        "headers_s": _rounded(seen.headers),
        "first_s": _rounded(seen.first),
        "last_s": _rounded(seen.last),
        "ended_s": _rounded(seen.ended),
        "lag_s": _rounded(seen.lag_s),
        "queued_s": _rounded(seen.queued_s),
        "prompt_tokens": seen.prompt_tokens,
        "asked_tokens": request.asked_tokens,
        "output_tokens": seen.output_tokens,
        "chunks": len(seen.chunk_times),
        "chunk_gaps_s": [_rounded(gap) for gap in seen.chunk_gaps_s],
        "token_gaps_s": None if gaps is None else [[_rounded(gap), n] for gap, n in gaps],
    }


def due_at(started: datetime, due_s: float) -> datetime:
    """Wall-clock time of a run time."""
    return started + timedelta(seconds=due_s)


def _rounded(seconds: float | None) -> float | None:
    """To a microsecond: finer than any clock on a network, and short in a file."""
    return None if seconds is None else round(seconds, 6)
