"""vLLM. Read against the documentation of 0.32 and the sources of 0.9 to 0.32.

Per request, with `--per-request-spec-decode-metrics`: `metrics.speculative_decoding` of the body or
of the last event. An earlier draft of that feature wrote `choices[].speculative_decoding_stats`
with text for histogram keys. Null when several replies were asked for at once.

Server-wide: counters `vllm:spec_decode_*`, with labels for engine and model. A step without a draft
(prompt lookup that found nothing) is not counted as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from specdecode.workload.engines.adapter import (
    HEALTH,
    MODELS,
    VERSION,
    EngineName,
    OpenAiRoutes,
    Payload,
    choices_of,
    last_with,
    metric_names,
    owner,
    source,
    version_at,
)
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.interval import CounterNames, Interval, interval
from specdecode.workload.engines.rule import OFF, AcceptanceRule, acceptance_rule, one_of
from specdecode.workload.engines.speculation import RequestSpeculation, histogram_of
from specdecode.workload.engines.state import (
    Options,
    Readings,
    ServerState,
    from_metrics,
    fullest,
    listed_context,
    ready,
    served,
    shown,
    summed,
)
from specdecode.workload.engines.unknown import Count, Unknown, count

SERVER_INFO = "/server_info?config_format=json"
CACHE_INFO = "vllm:cache_config_info"

COUNTERS = CounterNames(
    steps=("vllm:spec_decode_num_drafts",),
    drafted=("vllm:spec_decode_num_draft_tokens",),
    accepted=("vllm:spec_decode_num_accepted_tokens",),
    per_position=("vllm:spec_decode_num_accepted_tokens_per_pos",),
    generated=("vllm:generation_tokens",),
    finished=("vllm:request_success",),
    preemptions=("vllm:num_preemptions",),
    prefix_queried=("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    prefix_hit=("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
)

EXACT = {
    "rejection_sample_method": one_of(None, "standard", "block"),
    "spec_decoding_acceptance_method": one_of(None, "rejection_sampler"),
    "acceptance_method": one_of(None, "rejection_sampler"),
    "posterior_threshold": OFF,
    "posterior_alpha": OFF,
}

_HIDDEN = "the speculative configuration is shown only with VLLM_SERVER_DEV_MODE=1"
_NOT_TOLD = (
    "no metrics.speculative_decoding: start vLLM with --per-request-spec-decode-metrics summary, "
    "stream with include_usage, and see that no proxy drops it"
)
_NULL = "speculative_decoding is null: several replies or prompts at once, or nothing was drafted"


class Vllm(OpenAiRoutes):
    """Adapter of vLLM, and of servers that speak like it."""

    name: EngineName = "vllm"
    silence: str = _NOT_TOLD
    paths: tuple[str, ...] = (HEALTH, VERSION, MODELS, METRICS, SERVER_INFO)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`."""
        return owner(facts, "vllm") + metric_names(facts, "vllm:")

    def version(self, facts: Facts) -> str | Unknown:
        """See `Adapter`."""
        return version_at(facts, VERSION, "version")

    def of_reply(
        self, payloads: Iterable[Payload], version: str | None = None
    ) -> RequestSpeculation:
        """See `Adapter`."""
        where = source(self.name, version, "metrics.speculative_decoding")
        kept = list(payloads)
        _, failed = last_with(kept)
        if failed is not None:
            return RequestSpeculation.nothing(where, failed)
        told = [stats for payload in kept for stats in _stats(payload)]
        if not told:
            return RequestSpeculation.nothing(where, self.silence)
        if not isinstance(told[-1], Mapping):
            return RequestSpeculation.nothing(where, _NULL)
        return _counts(where, told[-1])

    def between(self, before: Facts, after: Facts) -> Interval:
        """See `Adapter`."""
        where = source(self.name, self.version(after), f"{METRICS}, difference")
        return interval(where, COUNTERS, before, after)

    def state(self, facts: Facts) -> ServerState:
        """See `Adapter`."""
        return ServerState.of(
            served(facts),
            ready=ready(facts),
            version=self.version(facts),
            context_length=listed_context(facts),
            options=self.options(facts),
            **from_metrics(facts.metrics, _READINGS),
        )

    def options(self, facts: Facts) -> Options:
        """Settings in force: of the cache from its metric, all of them in developer mode."""
        found: dict[str, Any] = {}
        if not isinstance(facts.metrics, Unknown):
            engines = [shown(labels) for labels in facts.metrics.labels(CACHE_INFO)]
            if engines:
                found["cache_config"] = engines[0] if len(engines) == 1 else engines
        info = facts.object(SERVER_INFO)
        if not isinstance(info, Unknown) and isinstance(info.get("vllm_config"), Mapping):
            found |= shown(info["vllm_config"])
        return found or Unknown("neither vllm:cache_config_info nor /server_info is there")

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`."""
        options = self.options(facts)
        shows = not isinstance(options, Unknown) and isinstance(
            options.get("speculative_config", _HIDDEN), Mapping | None
        )
        hidden = _HIDDEN
        if (failed := facts.failures.get(SERVER_INFO)) is not None:
            hidden = f"{SERVER_INFO}, which would show the speculative configuration, {failed}"
        return acceptance_rule(options, EXACT, None if shows else hidden)


def _stats(payload: Payload) -> list[object]:
    """What a payload says of drafting, null included."""
    found: list[object] = [
        choice["speculative_decoding_stats"]
        for choice in choices_of(payload)
        if "speculative_decoding_stats" in choice
    ]
    metrics = payload.get("metrics")
    if isinstance(metrics, Mapping) and "speculative_decoding" in metrics:
        found.append(metrics["speculative_decoding"])
    return found


def _counts(where: str, stats: Mapping[str, Any]) -> RequestSpeculation:
    length = stats.get("num_spec_tokens")
    return RequestSpeculation.of(
        where,
        steps=count(stats.get("num_spec_steps"), "num_spec_steps"),
        drafted=count(stats.get("num_draft_tokens"), "num_draft_tokens"),
        accepted=count(stats.get("num_accepted_draft_tokens"), "num_accepted_draft_tokens"),
        histogram=histogram_of(
            stats.get("acceptance_histogram"),
            "acceptance_histogram",
            length if isinstance(length, int) else None,
        ),
    )


def _capacity(engines: list[dict[str, str]]) -> Count:
    """Tokens that the caches of all engines hold.

    Newer versions say so. In older ones it is blocks × block size, unless the model mixes kinds of
    cache, where blocks are shared out in ways the labels do not tell.
    """
    if not engines:
        return Unknown(f"no metric {CACHE_INFO}")
    tokens = 0
    for labels in engines:
        stated, blocks = labels.get("kv_cache_size_tokens"), labels.get("num_gpu_blocks")
        if stated is None and labels.get("mamba_block_size") not in (None, "None", ""):
            return Unknown(f"{CACHE_INFO} has blocks of several kinds, but no size in tokens")
        parts = [stated] if stated is not None else [blocks, labels.get("block_size")]
        if not all(p is not None and re.fullmatch("[0-9]{1,15}", p) for p in parts):
            return Unknown(
                f"{CACHE_INFO} has neither kv_cache_size_tokens nor blocks and their size"
            )
        product = 1
        for part in parts:
            product *= int(part or "0")
        tokens += product
    return count(tokens, "the size of the KV cache")


_READINGS: Readings = {
    "kv_cache_usage": lambda m: fullest(
        m.gauge("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), "the use of the KV cache"
    ),
    "kv_cache_tokens": lambda m: _capacity(m.labels(CACHE_INFO)),
    "running": lambda m: summed(m.gauge("vllm:num_requests_running"), "running requests"),
    "queued": lambda m: summed(m.gauge("vllm:num_requests_waiting"), "waiting requests"),
    "preemptions": lambda m: m.total(*COUNTERS.preemptions),
    "prefix_queried_tokens": lambda m: m.total(*COUNTERS.prefix_queried),
    "prefix_hit_tokens": lambda m: m.total(*COUNTERS.prefix_hit),
}
