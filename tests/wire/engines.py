"""What each engine answers: to a request, and to questions about itself.

All tell the same story: a reply of 13 tokens in 4 steps of at most 3 drafts, of 12 drafted tokens 8
accepted, once none, once two and twice three. The prompt's own pass gave the first token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.wire.replies import events, json_reply, stream, text_reply
from tests.wire.server import Handler, Routes, Script

STEPS, DRAFTED, ACCEPTED, HISTOGRAM, TOKENS = 4, 12, 8, [1, 0, 1, 2], 13

CHAT = ("POST", "/v1/chat/completions")

USAGE = {
    "prompt_tokens": 5, "completion_tokens": TOKENS, "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 2},
}  # fmt: skip

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
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [choice], "usage": USAGE, **self.fields, **self.extra,
        }  # fmt: skip
        return {**whole, **changes}

    def chunks(self, finish_reason: str | None = "stop", **last: Any) -> list[dict[str, Any]]:
        """A reply that streams; its last chunk has no choices."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": text} for text in TEXTS]
        reasons = [None] * (len(deltas) - 1) + [finish_reason]
        found = [self._chunk([{"index": 0, "delta": delta, "finish_reason": reason}])
                 for delta, reason in zip(deltas, reasons, strict=True)]  # fmt: skip
        return [*found, {**self._chunk([]), "usage": USAGE, **self.extra, **last}]

    def _chunk(self, choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": list(choices), **self.fields,
        }  # fmt: skip

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


def vllm_metrics(
    times: int = 1, *, engines: int = 1, prefix: str = "vllm:", start: float = 1.7e9
) -> str:
    """Metrics of vLLM after so many replies, on each of several engines."""
    lines = ["# HELP process_start_time_seconds Start time.",
             "# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {start}"]  # fmt: skip
    counters = {
        "spec_decode_num_drafts": STEPS, "spec_decode_num_draft_tokens": DRAFTED,
        "spec_decode_num_accepted_tokens": ACCEPTED, "generation_tokens": TOKENS,
        "prompt_tokens": 5, "num_preemptions": 1, "prefix_cache_queries": 5,
        "prefix_cache_hits": 2,
    }  # fmt: skip
    for name, each in counters.items():
        for kind, suffix, value in (
            ("counter", "total", each * times),
            ("gauge", "created", start),
        ):
            lines.append(f"# TYPE {prefix}{name}_{suffix} {kind}")
            lines += [f'{prefix}{name}_{suffix}{{engine="{e}",model_name="m"}} {float(value)}'
                      for e in range(engines)]  # fmt: skip
    lines.append(f"# TYPE {prefix}spec_decode_num_accepted_tokens_per_pos_total counter")
    for e in range(engines):
        for position, reached in enumerate((3, 3, 2)):
            lines.append(
                f"{prefix}spec_decode_num_accepted_tokens_per_pos_total"
                f'{{engine="{e}",model_name="m",position="{position}"}} {float(reached * times)}'
            )
    for reason in ("stop", "length", "abort"):
        count = float(times) if reason == "stop" else 0.0
        lines.append(
            f'{prefix}request_success_total{{engine="0",finished_reason="{reason}"}} {count}'
        )
    for name, value in (("num_requests_running", 2), ("num_requests_waiting", 1),
                        ("kv_cache_usage_perc", 0.25)):  # fmt: skip
        lines.append(f"# TYPE {prefix}{name} gauge")
        lines += [f'{prefix}{name}{{engine="{e}",model_name="m"}} {float(value)}'
                  for e in range(engines)]  # fmt: skip
    lines.append(f"# TYPE {prefix}cache_config_info gauge")
    lines += [f'{prefix}cache_config_info{{block_size="16",enable_prefix_caching="True",'
              f'engine="{e}",num_gpu_blocks="100"}} 1.0' for e in range(engines)]  # fmt: skip
    lines += [f"# TYPE {prefix}time_to_first_token_seconds histogram",
              f'{prefix}time_to_first_token_seconds_bucket{{le="+Inf"}} {times}',
              f"{prefix}time_to_first_token_seconds_count {times}",
              f"{prefix}time_to_first_token_seconds_sum NaN"]  # fmt: skip
    return "\n".join(lines) + "\n"


def sglang_metrics(times: int = 1) -> str:
    labels = '{engine_type="unified",model_name="m",tp_rank="0"}'
    counters = {"spec_verify_calls": STEPS, "generation_tokens": TOKENS, "num_requests": 1,
                "num_retracted_requests": 1, "prompt_tokens": 5}  # fmt: skip
    gauges = {"num_running_reqs": 2, "num_queue_reqs": 1, "token_usage": 0.25,
              "spec_accept_length": 3.0, "max_total_num_tokens": 1600}  # fmt: skip
    lines = [f"sglang:{name}_total{labels} {each * times}" for name, each in counters.items()]
    lines += [f'sglang:cached_tokens_total{{cache_source="device",model_name="m"}} {2 * times}']
    for name, value in gauges.items():
        lines += [f"# TYPE sglang:{name} gauge", f"sglang:{name}{labels} {value}"]
    return "\n".join(lines) + "\n"


def llama_metrics(times: int = 1) -> str:
    counters = {"spec_decode_num_drafts": STEPS, "spec_decode_num_draft_tokens": DRAFTED,
                "spec_decode_num_accepted_tokens": ACCEPTED, "tokens_predicted": TOKENS}  # fmt: skip
    lines = []
    for name, each in counters.items():
        lines += [f"# TYPE llamacpp:{name}_total counter", f"llamacpp:{name}_total {each * times}"]
    if times:
        lines += [f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{p}"}} '
                  f"{reached * times}" for p, reached in enumerate((3, 3, 2))]  # fmt: skip
    for name, value in (("requests_processing", 2), ("requests_deferred", 1)):
        lines += [f"# TYPE llamacpp:{name} gauge", f"llamacpp:{name} {value}"]
    return "\n".join(lines) + "\n"


def tgi_metrics(times: int = 1) -> str:
    lines = ["# TYPE tgi_queue_size gauge", "tgi_queue_size 1",
             "# TYPE tgi_batch_current_size gauge", "tgi_batch_current_size 2"]  # fmt: skip
    if times:
        lines += ["# TYPE tgi_request_success counter", f"tgi_request_success {times}",
                  "# TYPE tgi_request_skipped_tokens histogram",
                  f'tgi_request_skipped_tokens_bucket{{le="+Inf"}} {5 * times}',
                  f"tgi_request_skipped_tokens_sum {ACCEPTED * times}",
                  f"tgi_request_skipped_tokens_count {5 * times}",
                  "# TYPE tgi_request_generated_tokens histogram",
                  f"tgi_request_generated_tokens_sum {TOKENS * times}",
                  f"tgi_request_generated_tokens_count {times}"]  # fmt: skip
    return "\n".join(lines) + "\n"


_VLLM_STATS = {
    "mean_acceptance_length": 3.0, "draft_acceptance_rate": 8 / 12, "acceptance_histogram": HISTOGRAM,
    "num_spec_steps": STEPS, "num_accepted_draft_tokens": ACCEPTED, "num_draft_tokens": DRAFTED,
    "num_spec_tokens": 3,
}  # fmt: skip

_VLLM_EXTRA = {
    "metrics": {"time_to_first_token_ms": 10.0, "queue_time_ms": 1.0,
                "speculative_decoding": _VLLM_STATS},
}  # fmt: skip

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
        "/version": {"version": "0.1.0"},
        "/v1/models": models("specdecode", max_model_len=2048),
        "/metrics": vllm_metrics(),
        "/server_info": {"verification": "block", "num_speculative_tokens": 3},
    },
)

SGLANG = Wire(
    "sglang",
    {"sglext": {"spec_tokens_details": {
        "spec_accept_rate": 8 / 12, "spec_accept_length": 3.25, "spec_num_correct_drafts": ACCEPTED,
        "spec_num_proposed_drafts": DRAFTED, "spec_verify_ct": STEPS,
        "spec_correct_drafts_histogram": HISTOGRAM, "spec_cap_lens_histogram": [],
    }}},
    {
        "/health": "",
        "/v1/models": models("sglang", max_model_len=4096),
        "/metrics": sglang_metrics(),
        "/server_info": {
            "model_path": "m", "version": "0.5.23", "speculative_algorithm": "EAGLE3",
            "speculative_num_steps": 3, "speculative_accept_threshold_single": 1.0,
            "speculative_accept_threshold_acc": 1.0, "api_key": "hunter2", "context_length": None,
            "max_total_num_tokens": 1600,
            "internal_states": [{"avg_spec_accept_length": 3.25, "last_gen_throughput": 9.0}],
        },
    },
)  # fmt: skip

LLAMA_CPP = Wire(
    "llama.cpp",
    {"timings": {"cache_n": 2, "prompt_n": 3, "prompt_ms": 4.0, "predicted_n": TOKENS,
                 "predicted_ms": 50.0, "predicted_per_second": 260.0, "draft_n": DRAFTED,
                 "draft_n_accepted": ACCEPTED}},
    {
        "/health": {"status": "ok"},
        "/v1/models": models("llamacpp", meta={"n_ctx_train": 8192}),
        "/metrics": llama_metrics(),
        "/props": {
            "default_generation_settings": {"n_ctx": 4096, "params": {
                "speculative.types": "none", "speculative.p_min": 0.0}},
            "total_slots": 4, "model_path": "m.gguf", "chat_template": "x" * 5000,
            "build_info": "b9999-abcdef0",
        },
        "/slots": [{"id": 0, "n_ctx": 4096, "speculative": True, "is_processing": False},
                   {"id": 1, "n_ctx": 4096, "speculative": True, "is_processing": True}],
    },
    {"system_fingerprint": "b9999-abcdef0"},
)  # fmt: skip

TGI = Wire(
    "tgi",
    {},
    {
        "/health": "",
        "/metrics": tgi_metrics(),
        "/info": {
            "model_id": "m", "model_sha": None, "router": "text-generation-router",
            "version": "3.3.6", "max_total_tokens": 4096, "max_batch_total_tokens": 16000,
            "waiting_served_ratio": 0.3, "max_concurrent_requests": 128,
        },
    },
    {"system_fingerprint": "3.3.6-sha"},
)  # fmt: skip

GENERIC = Wire("generic", {}, {"/v1/models": models("someone")})

ALL = (OWN, VLLM, SGLANG, LLAMA_CPP, TGI, GENERIC)

__all__ = ["ALL", "CHAT", "GENERIC", "LLAMA_CPP", "OWN", "SGLANG", "TGI", "VLLM", "Routes"]
