"""What each engine answers: to a request, and to questions about itself.

All tell the same story: a reply of 13 tokens in 4 steps of at most 3 drafts, of 12 drafted tokens 8
accepted, once none, once two and twice three. The prompt's own pass gave the first token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.wire.metrics import (
    ACCEPTED,
    DRAFTED,
    HISTOGRAM,
    STEPS,
    TOKENS,
    llama_metrics,
    sglang_metrics,
    tgi_metrics,
    trtllm_metrics,
    vllm_metrics,
)
from tests.wire.replies import events, json_reply, stream, text_reply
from tests.wire.server import Handler, Script

CHAT = ("POST", "/v1/chat/completions")

USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": TOKENS,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 2},
}

TEXTS = ("Grüße", " aus", " 東京", " und 😀", "!")
"""The reply, several tokens to a chunk, with characters of one to four bytes."""


@dataclass(frozen=True)
class Wire:
    """One engine.

    Args:
        name: as the adapters call it.
        extra: what rides on a reply beside the fields of OpenAI.
        about: JSON or text by path, of what it tells about itself; not offered if absent.
        fields: of each chunk.
    """

    name: str
    extra: Mapping[str, Any]
    about: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)

    def body(self, **changes: Any) -> dict[str, Any]:
        """A reply that does not stream."""
        message = {"role": "assistant", "content": "".join(TEXTS)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        whole = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": USAGE,
            **self.fields,
            **self.extra,
        }
        return {**whole, **changes}

    def chunks(self, finish_reason: str | None = "stop", **last: Any) -> list[dict[str, Any]]:
        """A reply that streams; its last chunk has no choices."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": text} for text in TEXTS]
        reasons = [None] * (len(deltas) - 1) + [finish_reason]
        found = [
            self._chunk([{"index": 0, "delta": delta, "finish_reason": reason}])
            for delta, reason in zip(deltas, reasons, strict=True)
        ]
        return [*found, {**self._chunk([]), "usage": USAGE, **self.extra, **last}]

    def _chunk(self, choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": list(choices),
            **self.fields,
        }

    def routes(self, **changes: Any) -> dict[tuple[str, str], Script | Handler]:
        """Everything it offers. `changes` replaces answers by path; None takes one away."""
        about = {**self.about, **changes}
        found: dict[tuple[str, str], Script | Handler] = {
            ("GET", path): _script(answer) for path, answer in about.items() if answer is not None
        }
        found[CHAT] = lambda request: (
            stream(events(self.chunks())) if request.json.get("stream") else json_reply(self.body())
        )
        return found


def _script(answer: Any) -> Script | Handler:
    if isinstance(answer, str):
        return text_reply(answer)
    if isinstance(answer, dict):
        return json_reply(answer)
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return json_reply(answer)
    return answer


def models(owner: str, **fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner, **fields}]}


_VLLM_STATS = {
    "mean_acceptance_length": 3.0,
    "draft_acceptance_rate": 8 / 12,
    "acceptance_histogram": HISTOGRAM,
    "num_spec_steps": STEPS,
    "num_accepted_draft_tokens": ACCEPTED,
    "num_draft_tokens": DRAFTED,
    "num_spec_tokens": 3,
}

_VLLM_EXTRA = {
    "metrics": {
        "time_to_first_token_ms": 10.0,
        "queue_time_ms": 1.0,
        "speculative_decoding": _VLLM_STATS,
    },
}

VLLM = Wire(
    "vllm",
    _VLLM_EXTRA,
    {
        "/health": "",
        "/version": {"version": "0.32.0"},
        "/v1/models": models("vllm", max_model_len=4096),
        "/metrics": vllm_metrics(),
    },
    {"system_fingerprint": "vllm-0.32.0"},
)

OWN = Wire(
    "specdecode",
    _VLLM_EXTRA,
    {
        "/health": {"status": "ok"},
        "/version": {"version": "0.1.0", "engine": "specdecode"},
        "/v1/models": models("specdecode", max_model_len=2048),
        "/metrics": vllm_metrics(),
        "/server_info": {"verification": "block", "num_speculative_tokens": 3},
    },
)

SGLANG = Wire(
    "sglang",
    {
        "sglext": {
            "spec_tokens_details": {
                "spec_accept_rate": 8 / 12,
                "spec_accept_length": 3.25,
                "spec_num_correct_drafts": ACCEPTED,
                "spec_num_proposed_drafts": DRAFTED,
                "spec_verify_ct": STEPS,
                "spec_correct_drafts_histogram": HISTOGRAM,
                "spec_cap_lens_histogram": [],
            }
        }
    },
    {
        "/health": "",
        "/v1/models": models("sglang", max_model_len=4096),
        "/metrics": sglang_metrics(),
        "/server_info": {
            "model_path": "m",
            "version": "0.5.23",
            "speculative_algorithm": "EAGLE3",
            "speculative_num_steps": 3,
            "speculative_accept_threshold_single": 1.0,
            "speculative_accept_threshold_acc": 1.0,
            "api_key": "hunter2",
            "context_length": None,
            "max_total_num_tokens": 1600,
            "internal_states": [{"avg_spec_accept_length": 3.25, "last_gen_throughput": 9.0}],
        },
    },
)

LLAMA_CPP = Wire(
    "llama.cpp",
    {
        "timings": {
            "cache_n": 2,
            "prompt_n": 3,
            "prompt_ms": 4.0,
            "predicted_n": TOKENS,
            "predicted_ms": 50.0,
            "predicted_per_second": 260.0,
            "draft_n": DRAFTED,
            "draft_n_accepted": ACCEPTED,
        }
    },
    {
        "/health": {"status": "ok"},
        "/v1/models": models("llamacpp", meta={"n_ctx_train": 8192}),
        "/metrics": llama_metrics(),
        "/props": {
            "default_generation_settings": {
                "n_ctx": 4096,
                "params": {"speculative.types": "none", "speculative.p_min": 0.0},
            },
            "total_slots": 4,
            "model_path": "m.gguf",
            "chat_template": "x" * 5000,
            "build_info": "b9999-abcdef0",
        },
        "/slots": [
            {"id": 0, "n_ctx": 4096, "speculative": True, "is_processing": False},
            {"id": 1, "n_ctx": 4096, "speculative": True, "is_processing": True},
        ],
    },
    {"system_fingerprint": "b9999-abcdef0"},
)

TGI = Wire(
    "tgi",
    {},
    {
        "/health": "",
        "/metrics": tgi_metrics(),
        "/info": {
            "model_id": "m",
            "model_sha": None,
            "router": "text-generation-router",
            "version": "3.3.6",
            "max_total_tokens": 4096,
            "max_batch_total_tokens": 16000,
            "waiting_served_ratio": 0.3,
            "max_concurrent_requests": 128,
        },
    },
    {"system_fingerprint": "3.3.6-sha"},
)

TENSORRT_LLM = Wire(
    "tensorrt-llm",
    {},
    {
        "/health": "",
        "/version": {"version": "1.2.0"},
        "/v1/models": models("tensorrt_llm"),
        "/metrics": [{"iter": 7, "specDecodingStats": {"numDraftTokens": 3}}],
        "/prometheus/metrics": trtllm_metrics(),
    },
)

GENERIC = Wire("generic", {}, {"/v1/models": models("someone")})

ALL = (OWN, VLLM, SGLANG, LLAMA_CPP, TGI, TENSORRT_LLM, GENERIC)
