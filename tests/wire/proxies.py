"""What stands between a client and an engine, and what it does to replies and to questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.wire.engines import Wire, models
from tests.wire.server import Handler, Request, Script

_OF_OPENAI = ("id", "object", "created", "model", "choices", "usage")


def stripped(payloads: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Only what OpenAI's interface has, as Dynamo and LiteLLM pass on."""
    return [{name: p[name] for name in _OF_OPENAI if name in p} for p in payloads]


def without_usage(payloads: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A stream whose client did not ask for usage: the chunk that carries the counts is missing."""
    return [dict(p) for p in payloads if p["choices"]]


def joined(payloads: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All text in one chunk, as a proxy does that buffers."""
    whole = [dict(p) for p in payloads]
    texts = [c["delta"].get("content", "") for p in whole for c in p["choices"]]
    first, *_, ended, counts = whole
    choice = {"index": 0, "delta": {"content": "".join(texts)}, "finish_reason": None}
    return [first, {**first, "choices": [choice]}, ended | {"choices": _silent(ended)}, counts]


def _silent(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**choice, "delta": {}} for choice in payload["choices"]]


def only_if(asked: Callable[[Request], bool], then: Script, otherwise: Script) -> Handler:
    """A fault that strikes some requests: those with tools, a logit bias, a long prompt, …"""
    return lambda request: then if asked(request) else otherwise


DYNAMO = Wire(
    "generic",
    {},
    {
        "/health": {"status": "healthy", "endpoints": ["dyn://ns.backend.generate"]},
        "/v1/models": models("nvidia"),
        "/metrics": (
            "# TYPE dynamo_frontend_requests_total counter\n"
            'dynamo_frontend_requests_total{model="m",status="success"} 3\n'
            'dynamo_frontend_output_sequence_tokens_sum{model="m"} 39\n'
        ),
    },
)

LITELLM = Wire("generic", {}, {"/v1/models": models("openai"), "/health": {"detail": "no key"}})
