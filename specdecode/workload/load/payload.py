"""What one event of a stream says, whichever of the two APIs and whichever engine sent it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from specdecode.workload.engines import error_of
from specdecode.workload.load.faults import MALFORMED, STREAM_ERROR, Fault

_TOO_MANY: Final = 2**31
"""Counts and token ids are below it, in any model and in the schema of rows."""


@dataclass(frozen=True)
class Payload:
    """One event.

    Args:
        text: output it carries; "" when it carries none that can be shown.
        output: whether it carries output at all: text, reasoning, a tool call or token ids.
        finish_reason: why the reply ended, in the event that says so.
        token_ids: ids of its tokens, where the server sends them.
        prompt_token_ids: ids of the prompt, where the server sends them.
        tokens: how many tokens it carries, where the server tells; else None, never a guess.
        usage: counts for the reply so far or as a whole.
        raw: all of it.
    """

    text: str
    output: bool
    finish_reason: str | None
    token_ids: list[int] | None
    prompt_token_ids: list[int] | None
    tokens: int | None
    usage: Mapping[str, Any] | None
    raw: Mapping[str, Any]


def read_payload(data: str) -> Payload:
    """Reads the data of an event.

    Raises:
        Fault: the server reports an error, or the data is not what the API sends.
    """
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Fault(MALFORMED, f"an event is not JSON ({error}): {data[:200]}") from error
    if not isinstance(raw, dict):
        raise Fault(MALFORMED, f"an event is {type(raw).__name__}, not an object")
    reported = error_of(raw)
    if reported is not None or raw.get("object") == "error":
        raise Fault(STREAM_ERROR, reported or str(raw.get("message", "without a message")))
    choices = raw.get("choices") or []  # the usage chunk has none
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise Fault(MALFORMED, "an event's 'choices' is not a list of objects")
    choice: dict[str, Any] = next((c for c in choices if c.get("index", 0) == 0), {})
    if (ended := choice.get("finish_reason")) in ("error", "abort"):
        raise Fault(STREAM_ERROR, f"the reply ended with finish_reason '{ended}'")
    text, output = _output(choice)
    ids = _ids(choice.get("token_ids"))
    prompt_ids = _ids(raw.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids"))
    usage = raw.get("usage")
    reason = choice.get("finish_reason")
    return Payload(
        text=text,
        output=output or bool(ids),
        finish_reason=reason if isinstance(reason, str) and reason else None,
        token_ids=ids,
        prompt_token_ids=prompt_ids,
        tokens=len(ids) if ids is not None else _logprob_count(choice),
        usage=usage if isinstance(usage, dict) else None,
        raw=raw,
    )


def count(usage: Mapping[str, Any] | None, name: str) -> int | None:
    """A count of a usage object; None unless it is a whole number that tokens may have."""
    value = None if usage is None else usage.get(name)
    return value if type(value) is int and 0 <= value < _TOO_MANY else None


def mended(text: str) -> str:
    """Text that UTF-8 can write: halves of a character are joined, single ones replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _output(choice: Mapping[str, Any]) -> tuple[str, bool]:
    """(text, whether there is output). The role that opens a chat reply is none."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        text = choice.get("text")
        return (text, bool(text)) if isinstance(text, str) else ("", False)
    content = delta.get("content")
    text = content if isinstance(content, str) else ""
    hidden = any(delta.get(key) for key in ("reasoning_content", "reasoning", "tool_calls"))
    return text, bool(text) or hidden


def _ids(value: Any) -> list[int] | None:
    if isinstance(value, list) and all(type(i) is int and 0 <= i < _TOO_MANY for i in value):
        return value
    return None


def _logprob_count(choice: Mapping[str, Any]) -> int | None:
    """Tokens of an event by its log-probabilities, of which there is one a token."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    for key in ("content", "tokens", "token_logprobs"):
        if isinstance(logprobs.get(key), list):
            return len(logprobs[key])
    return None
