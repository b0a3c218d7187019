"""All numbers of a load run as one JSON-safe document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from specdecode.measurement.records import Record
from specdecode.workload.load.cost import cost_of
from specdecode.workload.load.distributions import of_client, of_gaps, of_requests, spread
from specdecode.workload.load.faults import CANCELLED, CLIENT_KILLED
from specdecode.workload.load.goodput import goodput
from specdecode.workload.load.resources import NOT_MEASURED
from specdecode.workload.load.saturation import client_saturation, server_saturation
from specdecode.workload.load.spec import SCHEMA, LoadSpec
from specdecode.workload.load.verdict import Verdict
from specdecode.workload.load.window import column, over_time, peak_in_flight

Json = dict[str, Any]

_EXAMPLES: Final = 3


@dataclass(frozen=True)
class Ended:
    """How a run ended, as far as it is known.

    Args:
        duration_s: run time at which the last exchange was over.
        stopped: why it ended before its plan.
        heartbeat_late_s: by how much the client overslept; empty when not known.
        most_waiting: rows that waited for the disk at the worst time.
        engine: what the server said of itself; None when it was not asked.
    """

    duration_s: float
    stopped: str | None
    heartbeat_late_s: Sequence[float] = ()
    most_waiting: int | None = None
    engine: Mapping[str, Any] | None = None


def summarise(
    run: Mapping[str, Any],
    spec: LoadSpec,
    records: Sequence[Record],
    details: Sequence[Mapping[str, Any]],
    ended: Ended,
    *,
    warm_up: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Any]],
    energy: Mapping[str, Any] | None,
) -> Json:
    """The document. A number without data is null, with n 0.

    Args:
        run: of run.json.
        spec: of the run.
        records: all rows.
        details: their details; a row of a client that was killed may have none.
        ended: how the run ended.
        warm_up: details of warm-up requests, which enter nothing but their own counts.
        samples: of the machine.
        energy: of `energy.Meter`; None when the run did not get to its end.
    """
    verdict = verdict_of(run, records, ended)
    good = [record for record in records if record.error is None]
    client = client_saturation(details, ended.heartbeat_late_s, spec.max_lag_s)
    server = server_saturation(details, open_loop=spec.open_loop)
    duration = ended.duration_s
    reached = goodput(records, verdict.cancelled, spec.slo, duration or None)
    tokens = _useful_tokens(good)
    joules = None if energy is None else energy.get("joules")
    return {
        "schema": SCHEMA,
        "verdict": verdict.to_json(),
        "manifest_sha256": run["manifest_sha256"],
        "started_at": run["started_at"],
        "duration_s": duration,
        "arm": spec.arm,
        "model": spec.model,
        "url": spec.url,
        "loop": "open" if spec.open_loop else "closed",
        "latency_counted_from": "due time" if spec.open_loop else "sending",
        "latency_valid": _valid(client.state, server.state),
        "saturation": {"client": client.to_json(), "server": server.to_json()},
        "latency": of_requests(records),
        "gaps": of_gaps(details),
        "client": {**of_client(details), "rows_waiting_for_disk_at_most": ended.most_waiting},
        "throughput": _throughput(spec, details, verdict, tokens, duration),
        "concurrency": _concurrency(details, duration),
        "goodput": reached,
        "tokens": _tokens(good, details, tokens),
        "sampling": dict(sorted(Counter(r.sampling_name for r in records).items())),
        "errors": _errors(records),
        "finish_reasons": dict(sorted(Counter(r.finish_reason or "unknown" for r in good).items())),
        "warm_up": _warm_up(warm_up),
        "resources": _resources(run, samples),
        "energy": dict(energy) if joules is not None and energy is not None else NOT_MEASURED,
        "cost": cost_of(
            price_per_hour=spec.price_per_hour,
            currency=spec.currency,
            duration_s=duration,
            useful_tokens=tokens,
            good_requests=None if reached is None else reached["good"],
            joules=joules,
        ),
        "engine": None if ended.engine is None else dict(ended.engine),
        "left_out_of_files": run.get("skipped", {}),
    }


def verdict_of(run: Mapping[str, Any], records: Sequence[Record], ended: Ended) -> Verdict:
    """Counts of rows by what became of them."""
    kinds = Counter(error_class(record) for record in records if record.error is not None)
    cancelled = kinds.pop(CANCELLED, 0)
    return Verdict(
        planned=run["planned"],
        sent=len(records),
        ok=sum(record.error is None for record in records),
        cancelled=cancelled,
        failed=kinds,
        stopped=ended.stopped,
    )


def error_class(record: Record) -> str:
    """Class of a failed row: what stands before the colon."""
    return (record.error or "").split(":", 1)[0]


def _valid(client: str, server: str) -> bool | None:
    """Whether latencies are those of the server under the stated load; None when not known."""
    if "saturated" in (client, server):
        return False
    return None if "unknown" in (client, server) else True


def _useful_tokens(good: Sequence[Record]) -> int | None:
    """Output tokens of whole replies; None as soon as one was not counted by the server."""
    counts = [record.output_tokens for record in good]
    return None if not counts or None in counts else sum(c for c in counts if c is not None)


def _throughput(
    spec: LoadSpec,
    details: Sequence[Mapping[str, Any]],
    verdict: Verdict,
    tokens: int | None,
    duration_s: float,
) -> Json:
    due = column(details, "due_s")
    span = float(due.max() - due.min()) if len(due) > 1 else 0.0
    return {
        "offered_per_s": (len(due) - 1) / span if span > 0 and spec.open_loop else None,
        "ok_per_s": verdict.ok / duration_s if duration_s else None,
        "output_tokens_per_s": tokens / duration_s if tokens is not None and duration_s else None,
    }


def _concurrency(details: Sequence[Mapping[str, Any]], duration_s: float) -> Json:
    sent, ended = column(details, "sent_s"), column(details, "ended_s")
    known = ~(np.isnan(sent) | np.isnan(ended))
    busy = float((ended[known] - sent[known]).sum())
    return {
        "mean": busy / duration_s if duration_s and known.any() else None,
        "peak": peak_in_flight(sent[known], ended[known]) if known.any() else None,
        "over_time": over_time([d for d, k in zip(details, known, strict=True) if k], duration_s),
    }


def _tokens(
    good: Sequence[Record], details: Sequence[Mapping[str, Any]], tokens: int | None
) -> Json:
    unknown = sum(record.output_tokens is None for record in good)
    made = [
        d["prompt_tokens"] / d["asked_tokens"]
        for d in details
        if d["asked_tokens"] and d["prompt_tokens"] is not None
    ]
    chunks = [
        (d["output_tokens"], d["chunks"])
        for d in details
        if d["status"] == "ok" and d["output_tokens"] is not None and d["chunks"]
    ]
    return {
        "output": tokens if tokens is not None else "unknown",
        "replies_the_server_did_not_count": unknown,
        "replies_without_token_ids": sum(
            r.output_token_ids is None or r.prompt_token_ids is None for r in good
        ),
        "tokens_per_chunk": sum(t for t, _ in chunks) / sum(c for _, c in chunks)
        if chunks
        else None,
        "synthetic_prompt_tokens_per_token_asked": spread(made),
    }


def _errors(records: Sequence[Record]) -> Json:
    found: dict[str, Json] = {}
    for record in records:
        if record.error is None or error_class(record) == CANCELLED:
            continue
        entry = found.setdefault(error_class(record), {"n": 0, "examples": []})
        entry["n"] += 1
        if len(entry["examples"]) < _EXAMPLES and record.error not in entry["examples"]:
            entry["examples"].append(record.error)
    return dict(sorted(found.items()))


def _warm_up(details: Sequence[Mapping[str, Any]]) -> Json:
    failed = [d["error"] for d in details if d["error"] is not None]
    return {"requests": len(details), "failed": len(failed), "errors": failed[:_EXAMPLES]}


def _resources(run: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> Json:
    names = [name for name in (samples[0] if samples else {}) if name not in ("t_s", "gpus")]
    found: Json = {"scope": run.get("resources_scope", NOT_MEASURED), "samples": len(samples)}
    for name in names:
        values = [s[name] for s in samples if s[name] is not None]
        found[name] = (
            {"n": len(values), "mean": sum(values) / len(values), "max": max(values)}
            if values
            else NOT_MEASURED
        )
    found["gpus"] = _gpus([s["gpus"] for s in samples if s.get("gpus")])
    return found


def _gpus(samples: Sequence[Sequence[Mapping[str, float | None]]]) -> list[Json] | str:
    if not samples:
        return NOT_MEASURED
    found: list[Json] = []
    for gpu in range(min(len(sample) for sample in samples)):
        one: Json = {}
        for name in samples[0][gpu]:
            values = [v for sample in samples if (v := sample[gpu][name]) is not None]
            one[name] = (
                {"n": len(values), "mean": sum(values) / len(values), "max": max(values)}
                if values
                else NOT_MEASURED
            )
        found.append(one)
    return found


def lost_with_the_client(asked: Mapping[str, Any]) -> Record:
    """The row of a request that was in flight when the client was killed."""
    what = "the client ended while the reply was on its way"
    return Record(**asked, error=f"{CLIENT_KILLED}: {what}")
