"""Metrics of each engine after it served the reply of `engines.py` so many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

STEPS, DRAFTED, ACCEPTED, HISTOGRAM, TOKENS = 4, 12, 8, [1, 0, 1, 2], 13
REACHED = (3, 3, 2)
"""Steps that accepted the draft at each position."""


def vllm_metrics(
    times: int = 1, *, engines: int = 1, prefix: str = "vllm:", start: float = 1.7e9
) -> str:
    """Metrics of vLLM after so many replies, on each of several engines."""
    lines = [
        "# HELP process_start_time_seconds Start time.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {start}",
    ]
    counters = {
        "spec_decode_num_drafts": STEPS,
        "spec_decode_num_draft_tokens": DRAFTED,
        "spec_decode_num_accepted_tokens": ACCEPTED,
        "generation_tokens": TOKENS,
        "prompt_tokens": 5,
        "num_preemptions": 1,
        "prefix_cache_queries": 5,
        "prefix_cache_hits": 2,
    }
    for name, each in counters.items():
        for kind, suffix, value in (
            ("counter", "total", each * times),
            ("gauge", "created", start),
        ):
            lines.append(f"# TYPE {prefix}{name}_{suffix} {kind}")
            lines += [
                f'{prefix}{name}_{suffix}{{engine="{e}",model_name="m"}} {float(value)}'
                for e in range(engines)
            ]
    lines.append(f"# TYPE {prefix}spec_decode_num_accepted_tokens_per_pos_total counter")
    for e in range(engines):
        for position, reached in enumerate(REACHED):
            lines.append(
                f"{prefix}spec_decode_num_accepted_tokens_per_pos_total"
                f'{{engine="{e}",model_name="m",position="{position}"}} {float(reached * times)}'
            )
    for reason in ("stop", "length", "abort"):
        count = float(times) if reason == "stop" else 0.0
        lines.append(
            f'{prefix}request_success_total{{engine="0",finished_reason="{reason}"}} {count}'
        )
    for name, value in (
        ("num_requests_running", 2),
        ("num_requests_waiting", 1),
        ("kv_cache_usage_perc", 0.25),
    ):
        lines.append(f"# TYPE {prefix}{name} gauge")
        lines += [
            f'{prefix}{name}{{engine="{e}",model_name="m"}} {float(value)}' for e in range(engines)
        ]
    lines.append(f"# TYPE {prefix}cache_config_info gauge")
    lines += [
        f'{prefix}cache_config_info{{block_size="16",enable_prefix_caching="True",'
        f'engine="{e}",num_gpu_blocks="100"}} 1.0'
        for e in range(engines)
    ]
    lines += [
        f"# TYPE {prefix}time_to_first_token_seconds histogram",
        f'{prefix}time_to_first_token_seconds_bucket{{le="+Inf"}} {times}',
        f"{prefix}time_to_first_token_seconds_count {times}",
        f"{prefix}time_to_first_token_seconds_sum NaN",
    ]
    return "\n".join(lines) + "\n"


ONE_RANK = ({"tp_rank": "0", "pp_rank": "0"},)


def sglang_metrics(times: int = 1, ranks: Sequence[Mapping[str, str]] = ONE_RANK) -> str:
    """Metrics of SGLang. Its schedulers report with labels of their rank, its front end without.

    Args:
        times: how many replies it gave.
        ranks: labels of each scheduler that reports.
    """
    front = 'engine_type="unified",model_name="m"'
    counters = {
        "spec_verify_calls": STEPS,
        "generation_tokens": TOKENS,
        "num_requests": 1,
        "prompt_tokens": 5,
    }
    gauges = {
        "num_running_reqs": 2,
        "num_queue_reqs": 1,
        "token_usage": 0.25,
        "spec_accept_length": 3.0,
        "max_total_num_tokens": 1600,
    }
    lines = [f"sglang:{name}_total{{{front}}} {each * times}" for name, each in counters.items()]
    lines.append(f'sglang:cached_tokens_total{{cache_source="device",model_name="m"}} {2 * times}')
    schedulers = [
        ",".join([front, *(f'{name}="{value}"' for name, value in rank.items())]) for rank in ranks
    ]
    lines += [f"sglang:num_retracted_requests_total{{{each}}} {times}" for each in schedulers]
    for name, value in gauges.items():
        lines.append(f"# TYPE sglang:{name} gauge")
        lines += [f"sglang:{name}{{{each}}} {value}" for each in schedulers]
    return "\n".join(lines) + "\n"


def llama_metrics(times: int = 1) -> str:
    counters = {
        "spec_decode_num_drafts": STEPS,
        "spec_decode_num_draft_tokens": DRAFTED,
        "spec_decode_num_accepted_tokens": ACCEPTED,
        "tokens_predicted": TOKENS,
        "prompt_tokens": 3,
        "prompt_tokens_cached": 2,
    }
    lines = []
    for name, each in counters.items():
        lines += [f"# TYPE llamacpp:{name}_total counter", f"llamacpp:{name}_total {each * times}"]
    if times:
        lines += [
            f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{p}"}} '
            f"{reached * times}"
            for p, reached in enumerate(REACHED)
        ]
    for name, value in (("requests_processing", 2), ("requests_deferred", 1)):
        lines += [f"# TYPE llamacpp:{name} gauge", f"llamacpp:{name} {value}"]
    return "\n".join(lines) + "\n"


def tgi_metrics(times: int = 1) -> str:
    lines = [
        "# TYPE tgi_queue_size gauge",
        "tgi_queue_size 1",
        "# TYPE tgi_batch_current_size gauge",
        "tgi_batch_current_size 2",
    ]
    if times:
        lines += [
            "# TYPE tgi_request_success counter",
            f"tgi_request_success {times}",
            "# TYPE tgi_request_skipped_tokens histogram",
            f'tgi_request_skipped_tokens_bucket{{le="+Inf"}} {5 * times}',
            f"tgi_request_skipped_tokens_sum {ACCEPTED * times}",
            f"tgi_request_skipped_tokens_count {5 * times}",
            "# TYPE tgi_request_generated_tokens histogram",
            f"tgi_request_generated_tokens_sum {TOKENS * times}",
            f"tgi_request_generated_tokens_count {times}",
        ]
    return "\n".join(lines) + "\n"


def trtllm_metrics(times: int = 1) -> str:
    labels = 'engine_type="undefined",model_name="undefined"'
    gauges = {
        "num_requests_running": 2,
        "num_requests_waiting": 1,
        "kv_cache_utilization": 0.25,
        "kv_cache_max_blocks": 50,
        "kv_cache_tokens_per_block": 32,
        "spec_decode_acceptance_length": 2.0,
    }
    lines = []
    for name, value in gauges.items():
        lines += [
            f"# TYPE trtllm_{name} gauge",
            f'trtllm_{name}{{{labels},pid="7"}} {float(value)}',
        ]
    infos = {
        "model": 'max_model_len="4096",dtype="float16"',
        "speculative": 'spec_enabled="True",spec_method="Eagle3",spec_num_tokens="3"',
    }
    for kind, more in infos.items():
        name = f"trtllm_{kind}_config_info"
        lines += [f"# TYPE {name} gauge", f'{name}{{{labels},{more},pid="7"}} 1.0']
    counters = {
        "spec_decode_num_draft_tokens": DRAFTED,
        "spec_decode_num_accepted_tokens": ACCEPTED,
        "generation_tokens": TOKENS,
    }
    for name, each in counters.items() if times else ():
        lines += [
            f"# TYPE trtllm_{name}_total counter",
            f"trtllm_{name}_total{{{labels}}} {float(each * times)}",
        ]
    if times:
        lines.append(
            f'trtllm_request_success_total{{{labels},finished_reason="stop"}} {float(times)}'
        )
    return "\n".join(lines) + "\n"
