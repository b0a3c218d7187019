"""What a router would hand to its spool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from specdecode.measurement.records import Record
from specdecode.rollout.observation import ReplyWatch
from specdecode.rollout.rows import asked_of
from specdecode.rollout.state import RolloutState

MANIFEST = "a" * 64
SHADOW = RolloutState(mode="shadow", share=1.0, manifest_sha256=MANIFEST)
CANARY = RolloutState(mode="canary", share=0.25, manifest_sha256=MANIFEST)
FULL = RolloutState(mode="full", share=1.0, manifest_sha256=MANIFEST)
START = datetime(2026, 11, 30, tzinfo=UTC)
BODY = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 8}
STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
JSON = {"Content-Type": "application/json"}
COUNTS = {
    "speculative_decoding": {
        "num_spec_steps": 2,
        "num_draft_tokens": 8,
        "num_accepted_draft_tokens": 3,
        "acceptance_histogram": [0, 1, 1, 0, 0],
        "num_spec_tokens": 4,
    }
}


def asked(
    number: int = 0,
    arm: str = "plain",
    state: RolloutState = CANARY,
    body: Mapping[str, Any] = BODY,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A request as it is known before its answer."""
    return asked_of(
        body,
        headers or {},
        prompt_id=f"c{number // 3}/{number:06d}",
        arm=arm,
        state=state,
        order_index=number,
        started_at=START,
    )


def record(
    number: int = 0, arm: str = "plain", state: RolloutState = CANARY, **fields: Any
) -> Record:
    """Its row."""
    numbers = {"output_tokens": 5, "ttft_s": 0.1, "e2e_s": 0.5, "prompt_tokens": 3}
    if "error" in fields:
        numbers = {}
    return Record(**{**asked(number, arm, state), **numbers, **fields})


def event(fields: Mapping[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(text: str, **more: Any) -> bytes:
    """An event with text of a chat reply."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, **more}]})


USAGE = event(
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}, "metrics": COUNTS}
)
DONE = b"data: [DONE]\n\n"
END = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + USAGE + DONE


def watched(
    *chunks: bytes,
    status: int = 200,
    headers: Mapping[str, str] = STREAM,
    error: str | None = None,
    streaming: bool = True,
    keep_ids: bool = False,
) -> ReplyWatch:
    """A reply sent at 10 s whose headers came at 11 s and whose chunks came a second apart."""
    watch = ReplyWatch(started=10.0, streaming=streaming, keep_ids=keep_ids)
    watch.headers(status, headers, 11.0)
    at = 11.0
    for chunk in chunks:
        at += 1.0
        watch.chunk(chunk, at)
    watch.ended(at + 0.5, error)
    return watch
