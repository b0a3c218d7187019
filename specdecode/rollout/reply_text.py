"""What is taken from a reply beside its text, and what of an error may be kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from specdecode.rollout.redaction import redacted
from specdecode.workload.load.faults import MALFORMED, Fault


def hidden_output(raw: Mapping[str, Any]) -> Iterator[str]:
    """Output beside the text: reasoning, and names and arguments of tool calls, not their ids."""
    choices = raw.get("choices") or [{}]
    delta = choices[0].get("delta")
    if not isinstance(delta, dict):
        return
    for key in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(key), str):
            yield delta[key]
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield from (v for k in ("name", "arguments") if isinstance(v := function.get(k), str))


def as_event(body: bytes) -> str:
    """The body with each `message` named as the events of a stream name it."""
    text = body.decode("utf-8", errors="replace")
    try:
        found = json.loads(text)
        for choice in found["choices"]:
            choice.setdefault("delta", choice.get("message"))
        return json.dumps(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text  # what is wrong with it, `read_payload` says


def refusal(status: int, body: bytes) -> str:
    """HTTP status and what the server says, without what looks like personal data."""
    try:
        found = json.loads(body)
        error = found.get("error", found)
        message = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        message = None
    return f"HTTP {status}" + (f": {redacted(message)[:200]}" if isinstance(message, str) else "")


def detail_of(fault: Fault) -> str:
    """What happened, without what the reply says."""
    if fault.kind == MALFORMED:
        return fault.detail.partition(":")[0].partition("(")[0].strip()[:100]
    return redacted(fault.detail)[:300]
