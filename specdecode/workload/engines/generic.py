"""Any other server with the routes of OpenAI. It tells its models and, with luck, their context.

How drafting went cannot be read from the stream: a chunk is not a step, for servers and proxies put
several steps in one and one step in several.
"""

from __future__ import annotations

from specdecode.workload.engines.adapter import (
    HEALTH,
    MODELS,
    VERSION,
    EngineName,
    OpenAiRoutes,
    source,
    version_at,
)
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.interval import CounterNames, Interval, interval
from specdecode.workload.engines.rule import AcceptanceRule
from specdecode.workload.engines.state import ServerState, listed_context, ready, served
from specdecode.workload.engines.unknown import Unknown

_WHY = "the engine is not known, so none of its numbers can be given a meaning"
_FIELDS = (
    "steps", "drafted", "accepted", "histogram", "generated_tokens", "finished_requests",
    "preemptions", "prefix_queried_tokens", "prefix_hit_tokens",
)  # fmt: skip


class Generic(OpenAiRoutes):
    """Adapter of a server that is none of the known engines."""

    name: EngineName = "generic"
    silence: str = _WHY
    paths: tuple[str, ...] = (HEALTH, VERSION, MODELS, METRICS)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`. Nothing shows that a server is unknown."""
        del facts
        return ()

    def version(self, facts: Facts) -> str | Unknown:
        """See `Adapter`."""
        return version_at(facts, VERSION, "version")

    def between(self, before: Facts, after: Facts) -> Interval:
        """See `Adapter`."""
        where = source(self.name, self.version(after), "nothing")
        return interval(where, CounterNames(), before, after, dict.fromkeys(_FIELDS, Unknown(_WHY)))

    def state(self, facts: Facts) -> ServerState:
        """See `Adapter`."""
        names = ("kv_cache_usage", "kv_cache_tokens", "running", "queued", "options", *_FIELDS[-3:])
        return ServerState.of(
            served(facts),
            ready=ready(facts),
            version=self.version(facts),
            context_length=listed_context(facts),
            **dict.fromkeys(names, Unknown(_WHY)),
        )

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`."""
        del facts
        return AcceptanceRule("hidden", (_WHY,))
