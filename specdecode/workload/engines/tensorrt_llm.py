"""TensorRT-LLM, by `trtllm-serve`. Read against its sources of 2026.

Its metrics are at `/prometheus/metrics`, with `return_perf_metrics`; those of speculation and load
need `enable_iter_perf_stats` too. `/metrics` is JSON, and reading it takes its entries away: from
earlier builds' own counters as well, which then miss passes. So it is not read during a load.

Replies tell nothing of drafting. The server counts drafted and accepted tokens, but no steps.
"""

from __future__ import annotations

from specdecode.workload.engines.adapter import (
    HEALTH,
    MODELS,
    VERSION,
    EngineName,
    OpenAiRoutes,
    metric_names,
    owner,
    source,
    version_at,
)
from specdecode.workload.engines.facts import Facts
from specdecode.workload.engines.interval import CounterNames, Interval, interval
from specdecode.workload.engines.metrics_text import Scrape
from specdecode.workload.engines.rule import AcceptanceRule, acceptance_rule
from specdecode.workload.engines.state import (
    Options,
    Readings,
    ServerState,
    from_metrics,
    fullest,
    ready,
    served,
    shown,
    summed,
)
from specdecode.workload.engines.unknown import Count, Unknown, count

METRICS = "/prometheus/metrics"

COUNTERS = CounterNames(
    appear=True,
    drafted=("trtllm_spec_decode_num_draft_tokens",),
    accepted=("trtllm_spec_decode_num_accepted_tokens",),
    generated=("trtllm_generation_tokens",),
    finished=("trtllm_request_success",),
)

_MISSING = {
    "steps": Unknown("TensorRT-LLM has no counter of steps"),
    "histogram": Unknown("TensorRT-LLM has no counters per draft position"),
    "preemptions": Unknown("TensorRT-LLM has no counter of preemptions"),
    "prefix_queried_tokens": Unknown("TensorRT-LLM counts blocks of its prefix cache, no tokens"),
    "prefix_hit_tokens": Unknown("TensorRT-LLM counts blocks of its prefix cache, no tokens"),
}
_HIDDEN = "its metrics do not show relaxed acceptance"
_INFOS = ("model", "parallel", "speculative", "kv_cache", "cache")


class TensorRtLlm(OpenAiRoutes):
    """Adapter of TensorRT-LLM."""

    name: EngineName = "tensorrt-llm"
    silence: str = "TensorRT-LLM's replies tell nothing of drafting"
    paths: tuple[str, ...] = (HEALTH, VERSION, MODELS, METRICS)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`."""
        return owner(facts, "tensorrt_llm") + metric_names(facts, "trtllm_", at=METRICS)

    def version(self, facts: Facts) -> str | Unknown:
        """See `Adapter`."""
        return version_at(facts, VERSION, "version")

    def between(self, before: Facts, after: Facts) -> Interval:
        """See `Adapter`."""
        where = source(self.name, self.version(after), f"{METRICS}, difference")
        return interval(where, COUNTERS, before, after, _MISSING, metrics=METRICS)

    def state(self, facts: Facts) -> ServerState:
        """See `Adapter`."""
        not_counted = ("preemptions", "prefix_queried_tokens", "prefix_hit_tokens")
        return ServerState.of(
            served(facts),
            ready=ready(facts),
            version=self.version(facts),
            options=self.options(facts),
            **{name: _MISSING[name] for name in not_counted},
            **from_metrics(facts.scrape(METRICS), _READINGS),
        )

    def options(self, facts: Facts) -> Options:
        """Labels of its metrics of configuration."""
        scrape = facts.scrape(METRICS)
        if isinstance(scrape, Unknown):
            return scrape
        shows = {kind: scrape.labels(f"trtllm_{kind}_config_info") for kind in _INFOS}
        found = {f"{kind}_config": shown(labels[0]) for kind, labels in shows.items() if labels}
        return found or Unknown("no metric trtllm_…_config_info; older builds have none")

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`."""
        return acceptance_rule(self.options(facts), {}, _HIDDEN)


def _one(scrape: Scrape, name: str) -> Count:
    """A gauge of its one process; processes that are gone may leave theirs behind."""
    series = scrape.gauge(name)
    if not isinstance(series, Unknown) and len(series) > 1:
        return Unknown(f"{name} comes from {len(series)} processes")
    return summed(series, name)


def _capacity(scrape: Scrape) -> Count:
    blocks, each = (
        _one(scrape, f"trtllm_kv_cache_{n}") for n in ("max_blocks", "tokens_per_block")
    )
    if isinstance(blocks, Unknown):
        return blocks
    return each if isinstance(each, Unknown) else blocks * each


def _context(scrape: Scrape) -> Count:
    lengths = {
        labels.get("max_model_len", "") for labels in scrape.labels("trtllm_model_config_info")
    }
    text = lengths.pop() if len(lengths) == 1 else ""
    told = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
    return count(told, "max_model_len of trtllm_model_config_info")


_READINGS: Readings = {
    "context_length": _context,
    "kv_cache_usage": lambda m: fullest(m.gauge("trtllm_kv_cache_utilization"), "the KV cache"),
    "kv_cache_tokens": _capacity,
    "running": lambda m: _one(m, "trtllm_num_requests_running"),
    "queued": lambda m: _one(m, "trtllm_num_requests_waiting"),
}
