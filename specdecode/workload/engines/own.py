"""This project's own server. It speaks like vLLM and says who it is.

`owned_by` in its list of models is "specdecode", and so is `engine` at `/version`. Unlike vLLM it
shows its speculative configuration to everyone, at `/server_info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdecode.workload.engines.adapter import (
    HEALTH,
    MODELS,
    VERSION,
    EngineName,
    metric_names,
    owner,
)
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.rule import AcceptanceRule, acceptance_rule
from specdecode.workload.engines.state import Options, shown
from specdecode.workload.engines.unknown import Unknown
from specdecode.workload.engines.vllm import EXACT, Vllm

OWNER = "specdecode"
INFO = "/server_info"


class Own(Vllm):
    """Adapter of `specdecode serve`."""

    name: EngineName = "specdecode"
    paths: tuple[str, ...] = (HEALTH, VERSION, MODELS, METRICS, INFO)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`."""
        named = tuple(
            f"{path} says engine {OWNER}"
            for path in (VERSION, INFO)
            if not isinstance(found := facts.object(path), Unknown) and found.get("engine") == OWNER
        )
        return owner(facts, OWNER) + metric_names(facts, "specdecode:", "specdecode_") + named

    def options(self, facts: Facts) -> Options:
        """Settings in force, with the configuration of the cache where metrics show it."""
        info = facts.object(INFO)
        cache = super().options(facts)
        if isinstance(info, Unknown):
            return cache
        found: Mapping[str, Any] = {} if isinstance(cache, Unknown) else cache
        return {**found, **shown(info)}

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`. Every rule that this engine has is exact."""
        info = facts.object(INFO)
        return acceptance_rule(
            self.options(facts), EXACT, info.reason if isinstance(info, Unknown) else None
        )
