"""Text Generation Inference. Read against the sources of its router, 1.4 to 3.3.

Per request it tells nothing of drafting. Server-wide, `tgi_request_skipped_tokens` observes, at
every pass for a request, the tokens it gave beyond the first: their sum is the number of accepted
drafts. The number of observations is no number of steps: the pass over the prompt is among them.
"""

from __future__ import annotations

from specdecode.workload.engines.adapter import (
    HEALTH,
    MODELS,
    EngineName,
    OpenAiRoutes,
    metric_names,
    source,
    version_at,
)
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.interval import CounterNames, Interval, interval
from specdecode.workload.engines.rule import AcceptanceRule, acceptance_rule
from specdecode.workload.engines.state import (
    Readings,
    ServerState,
    from_metrics,
    ready,
    served,
    shown,
    summed,
)
from specdecode.workload.engines.unknown import Unknown, count

INFO = "/info"

COUNTERS = CounterNames(
    appear=True,
    accepted=("tgi_request_skipped_tokens_sum",),
    generated=("tgi_request_generated_tokens_sum",),
    finished=("tgi_request_success",),
)

_STEPS = Unknown("passes over prompts are counted with the steps that verified a draft")
_DRAFTED = Unknown("TGI does not count what it drafts")
_PREFIX = Unknown("TGI has no counter of its prefix cache")
_PREEMPTION = Unknown("TGI does not preempt; it queues instead")


class Tgi(OpenAiRoutes):
    """Adapter of TGI."""

    name: EngineName = "tgi"
    silence: str = "TGI's replies tell nothing of drafting"
    paths: tuple[str, ...] = (HEALTH, MODELS, METRICS, INFO)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`."""
        info = facts.object(INFO)
        found: tuple[str, ...] = ()
        if not isinstance(info, Unknown) and (
            info.get("router") == "text-generation-router"
            or {"model_id", "max_total_tokens", "waiting_served_ratio"} <= set(info)
        ):
            found = (f"{INFO} is that of its router",)
        return metric_names(facts, "tgi_") + found

    def version(self, facts: Facts) -> str | Unknown:
        """See `Adapter`."""
        return version_at(facts, INFO, "version")

    def between(self, before: Facts, after: Facts) -> Interval:
        """See `Adapter`."""
        where = source(self.name, self.version(after), f"{METRICS}, difference")
        missing = {
            "steps": _STEPS,
            "drafted": _DRAFTED,
            "histogram": _STEPS,
            "preemptions": _PREEMPTION,
            "prefix_queried_tokens": _PREFIX,
            "prefix_hit_tokens": _PREFIX,
        }
        return interval(where, COUNTERS, before, after, missing)

    def state(self, facts: Facts) -> ServerState:
        """See `Adapter`."""
        info = facts.object(INFO)
        told = from_metrics(facts.metrics, _READINGS)
        names = served(facts)
        if not isinstance(info, Unknown):
            told["context_length"] = count(info.get("max_total_tokens"), "max_total_tokens")
            told["kv_cache_tokens"] = count(
                info.get("max_batch_total_tokens"), "max_batch_total_tokens"
            )
            model = info.get("model_id")
            names = names or ([model] if isinstance(model, str) else [])
        else:
            told |= {"context_length": info, "kv_cache_tokens": info}
        return ServerState.of(
            names,
            ready=ready(facts),
            version=self.version(facts),
            kv_cache_usage=Unknown("TGI does not show the use of its cache"),
            preemptions=_PREEMPTION,
            prefix_queried_tokens=_PREFIX,
            prefix_hit_tokens=_PREFIX,
            options=info if isinstance(info, Unknown) else shown(info),
            **told,
        )

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`."""
        info = facts.object(INFO)
        return acceptance_rule(info, {}, "/info does not say what it speculates with")


_READINGS: Readings = {
    "running": lambda m: summed(m.gauge("tgi_batch_current_size"), "the batch"),
    "queued": lambda m: summed(m.gauge("tgi_queue_size"), "the queue"),
}
