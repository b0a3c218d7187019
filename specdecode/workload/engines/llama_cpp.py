"""The server of llama.cpp. Read against its sources of late 2026.

Per request: `timings` at the root of the body or of the last event, where `draft_n` and
`draft_n_accepted` appear if anything was drafted. Steps are not told; they are derived: of
`predicted_n` tokens the prompt's own pass gave the first, accepted drafts gave `draft_n_accepted`,
and every other pass of the target gave one each. Two things make that only nearly right: passes
without a draft are among them, and tokens accepted beyond the end of the reply are counted as
accepted but not as predicted.

Server-wide: exact counters of steps, drafted and accepted tokens, with `--metrics`; they move when
a request ends. `timings` and `usage` of several replies to one request are those of one of them.

`/props` may say that nothing speculates while something does, so it proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from specdecode.workload.engines.adapter import (
    HEALTH,
    MODELS,
    EngineName,
    OpenAiRoutes,
    Payload,
    last_with,
    metric_names,
    owner,
    source,
    version_at,
)
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.interval import CounterNames, Interval, interval
from specdecode.workload.engines.rule import AcceptanceRule, acceptance_rule
from specdecode.workload.engines.speculation import RequestSpeculation
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
from specdecode.workload.engines.unknown import Count, Unknown, added, count

PROPS, SLOTS = "/props", "/slots"

COUNTERS = CounterNames(
    steps=("llamacpp:spec_decode_num_drafts",),
    drafted=("llamacpp:spec_decode_num_draft_tokens",),
    accepted=("llamacpp:spec_decode_num_accepted_tokens",),
    per_position=("llamacpp:spec_decode_num_accepted_tokens_per_pos",),
    positions_appear=True,
    generated=("llamacpp:tokens_predicted",),
    prefix_missed=("llamacpp:prompt_tokens",),
    prefix_hit=("llamacpp:prompt_tokens_cached",),
)

_EXACT = {
    "synth_rates": lambda value: value in (None, []),
    "synth_len": lambda value: value is None or (isinstance(value, int | float) and value <= 0),
}

_HOW = (
    "predicted_n − 1 − draft_n_accepted: counts passes without a draft, and too few where the end "
    "of the reply cut off a block"
)
_NO_DRAFT = "no draft_n in the timings: nothing was drafted in this request, or the build is older"
_NO_TIMINGS = "no timings in the reply"
_NO_PREEMPTION = Unknown("llama.cpp has no counter of preemptions; it queues instead")
_HIDDEN = "/props shows the defaults of a request, not what the server was started with"


class LlamaCpp(OpenAiRoutes):
    """Adapter of llama.cpp's server."""

    name: EngineName = "llama.cpp"
    silence: str = _NO_TIMINGS
    paths: tuple[str, ...] = (HEALTH, MODELS, METRICS, PROPS, SLOTS)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`."""
        props = facts.object(PROPS)
        found: tuple[str, ...] = ()
        if not isinstance(props, Unknown) and {"build_info", "total_slots"} <= set(props):
            found = (f"{PROPS} has build_info and total_slots",)
        if any(a.headers.get("server") == "llama.cpp" for a in facts.answers.values()):
            found += ("the Server header says llama.cpp",)
        return owner(facts, "llamacpp") + metric_names(facts, "llamacpp:") + found

    def version(self, facts: Facts) -> str | Unknown:
        """See `Adapter`."""
        return version_at(facts, PROPS, "build_info")

    def of_reply(
        self, payloads: Iterable[Payload], version: str | None = None
    ) -> RequestSpeculation:
        """See `Adapter`."""
        where = source(self.name, version, "timings")
        found, failed = last_with(payloads, "timings")
        timings = None if found is None else found["timings"]
        if not isinstance(timings, Mapping):
            return RequestSpeculation.nothing(where, failed or self.silence)
        if timings.get("draft_n") is None:
            return RequestSpeculation.nothing(where, _NO_DRAFT)
        accepted = count(timings.get("draft_n_accepted"), "draft_n_accepted")
        steps = _steps(count(timings.get("predicted_n"), "predicted_n"), accepted)
        return RequestSpeculation.of(
            where,
            steps=steps,
            drafted=count(timings["draft_n"], "draft_n"),
            accepted=accepted,
            histogram=Unknown("llama.cpp tells no histogram of a request"),
            derived={"steps": _HOW},
        )

    def between(self, before: Facts, after: Facts) -> Interval:
        """See `Adapter`."""
        where = source(self.name, self.version(after), f"{METRICS}, difference")
        missing = {
            "finished_requests": Unknown("llama.cpp does not count finished requests"),
            "preemptions": _NO_PREEMPTION,
        }
        return interval(where, COUNTERS, before, after, missing)

    def state(self, facts: Facts) -> ServerState:
        """See `Adapter`."""
        props = facts.object(PROPS)
        context = props if isinstance(props, Unknown) else _context(props)
        return ServerState.of(
            served(facts),
            ready=ready(facts),
            version=self.version(facts),
            context_length=context,
            kv_cache_tokens=Unknown("slots may share one cache; its size is not shown"),
            preemptions=_NO_PREEMPTION,
            options=self.options(facts),
            **from_metrics(facts.metrics, _READINGS),
        )

    def options(self, facts: Facts) -> Options:
        """What `/props` and `/slots` say of settings."""
        props, slots = facts.object(PROPS), facts.parsed(SLOTS)
        if isinstance(props, Unknown):
            return props
        found = shown(props)
        if isinstance(slots, list):
            found["slots_that_speculate"] = sum(
                1 for slot in slots if isinstance(slot, Mapping) and slot.get("speculative") is True
            )
        return found

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`. Dropping sampled drafts by their own probability biases what is left."""
        options = self.options(facts)
        found = acceptance_rule(options, _EXACT, _HIDDEN)
        if isinstance(options, Unknown):
            return found
        defaults = options.get("default_generation_settings")
        params = defaults.get("params") if isinstance(defaults, Mapping) else None
        settings = params if isinstance(params, Mapping) else {}
        cut, sampling = settings.get("speculative.p_min"), settings.get("speculative.sampling")
        if cut and sampling not in (None, "greedy"):
            dropped = f"speculative.p_min is {cut!r} with {sampling} drafts"
            others = found.findings if found.seen == "lossy" else ()
            return AcceptanceRule("lossy", (*others, dropped))
        return found


_READINGS: Readings = {
    "kv_cache_usage": lambda m: fullest(  # gone from newer builds
        m.gauge("llamacpp:kv_cache_usage_ratio"), "llamacpp:kv_cache_usage_ratio"
    ),
    "running": lambda m: summed(m.gauge("llamacpp:requests_processing"), "requests processing"),
    "queued": lambda m: summed(m.gauge("llamacpp:requests_deferred"), "requests deferred"),
    "prefix_hit_tokens": lambda m: m.total(*COUNTERS.prefix_hit),
    "prefix_queried_tokens": lambda m: added(
        m.total(*COUNTERS.prefix_missed), m.total(*COUNTERS.prefix_hit)
    ),
}


def _steps(predicted: Count, accepted: Count) -> Count:
    if isinstance(predicted, Unknown):
        return predicted
    if isinstance(accepted, Unknown):
        return accepted
    steps = predicted - 1 - accepted
    if steps < 0:
        return Unknown(f"{accepted} drafts accepted of {predicted} tokens: no number of steps fits")
    return steps


def _context(props: Mapping[str, Any]) -> Count:
    """Tokens of one slot: what one request may use."""
    defaults = props.get("default_generation_settings")
    found = defaults.get("n_ctx") if isinstance(defaults, Mapping) else None
    return count(found if found is not None else props.get("n_ctx"), "n_ctx in /props")
