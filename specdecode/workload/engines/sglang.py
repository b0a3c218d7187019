"""SGLang. Read against 0.5.6 to 0.5.23.

Per request: on the OpenAI routes `sglext.spec_tokens_details`, if the request carries
`return_spec_tokens_details` (0.5.19 and later; earlier versions ignore it); on the native route
`meta_info`. The names moved several times; all of them are read. Newer versions can tell drafted
and accepted tokens in `usage` too, as OpenAI's accepted and rejected prediction tokens.

Server-wide: the number of verify steps is a counter; accepted and drafted tokens are not. They
cannot be had from generated tokens minus steps: those counters move only when a request ends
naturally, so that cancelled ones shift the result. The gauges of acceptance cover the last logging
interval only and are not read.
"""

from __future__ import annotations

from collections import Counter
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
)
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.interval import CounterNames, Interval, interval
from specdecode.workload.engines.metrics_text import Labels, Scrape
from specdecode.workload.engines.rule import OFF, ONE, AcceptanceRule, acceptance_rule
from specdecode.workload.engines.speculation import Histogram, RequestSpeculation, histogram_of
from specdecode.workload.engines.state import (
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
from specdecode.workload.engines.unknown import Count, Unknown, added, count

INFO, OLD_INFO = "/server_info", "/get_server_info"

COUNTERS = CounterNames(
    appear=True,
    steps=("sglang:spec_verify_calls",),
    generated=("sglang:generation_tokens",),
    finished=("sglang:num_requests",),
    preemptions=("sglang:num_retracted_requests",),
    prefix_queried=("sglang:prompt_tokens",),
    prefix_hit=("sglang:cached_tokens",),
)

_STEPS = ("spec_verify_ct",)
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_ACCEPTED = (
    "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accepted_tokens",
    "spec_accept_token_num",
)  # fmt: skip
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")

_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
_EXACT = {**dict.fromkeys(_THRESHOLDS, ONE), "speculative_csd_enabled": OFF}
_NOT_TOLD = (
    "no sglext.spec_tokens_details: send return_spec_tokens_details (0.5.19 and later), and know "
    "that it is left out when nothing was verified"
)
_NO_COUNTER = Unknown("SGLang has no counter of it, and generated tokens minus steps is not it")
_NO_FIELD = "/server_info does not say it"
_USAGE = "completion_tokens_details"
_CONTEXT = "context_length in /server_info"


class Sglang(OpenAiRoutes):
    """Adapter of SGLang."""

    name: EngineName = "sglang"
    silence: str = _NOT_TOLD
    paths: tuple[str, ...] = (HEALTH, MODELS, METRICS, INFO, OLD_INFO)

    def request_fields(self, *, stream: bool) -> dict[str, Any]:
        """See `Adapter`."""
        return {**super().request_fields(stream=stream), "return_spec_tokens_details": True}

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """See `Adapter`."""
        info = self._info(facts)
        found: tuple[str, ...] = ()
        if not isinstance(info, Unknown) and "speculative_algorithm" in info:
            found = ("its server info has speculative_algorithm",)
        return owner(facts, "sglang") + metric_names(facts, "sglang:") + found

    def version(self, facts: Facts) -> str | Unknown:
        """See `Adapter`."""
        info = self._info(facts)
        if isinstance(info, Unknown):
            return info
        value = info.get("version")
        return value if isinstance(value, str) and value else Unknown(_NO_FIELD)

    def of_reply(
        self, payloads: Iterable[Payload], version: str | None = None
    ) -> RequestSpeculation:
        """See `Adapter`."""
        kept = list(payloads)
        found, failed = last_with(kept, "sglext", "meta_info")
        where = source(self.name, version, "sglext.spec_tokens_details")
        details: object = None
        if found is not None and isinstance(found.get("sglext"), Mapping):
            details = found["sglext"].get("spec_tokens_details")
        elif found is not None:
            where, details = source(self.name, version, "meta_info"), found.get("meta_info")
        if not isinstance(details, Mapping) or not any(n in details for n in (*_STEPS, *_ACCEPTED)):
            told = None if failed else _of_usage(source(self.name, version, _USAGE), kept)
            return told or RequestSpeculation.nothing(where, failed or self.silence)
        return _counts(where, details)

    def between(self, before: Facts, after: Facts) -> Interval:
        """See `Adapter`."""
        where = source(self.name, self.version(after), f"{METRICS}, difference")
        missing = dict.fromkeys(("drafted", "accepted", "histogram"), _NO_COUNTER)
        if (doubt := _cached_twice(after.metrics)) is not None:
            missing["prefix_hit_tokens"] = doubt
        if (copied := _retracted_twice(after.metrics)) is not None:
            missing["preemptions"] = copied
        return interval(where, COUNTERS, before, after, missing)

    def state(self, facts: Facts) -> ServerState:
        """See `Adapter`."""
        info = self._info(facts)
        context = info if isinstance(info, Unknown) else count(info.get("context_length"), _CONTEXT)
        told = from_metrics(facts.metrics, _READINGS)
        if not isinstance(info, Unknown) and not isinstance(size := _capacity(info), Unknown):
            told["kv_cache_tokens"] = size
        return ServerState.of(
            served(facts),
            ready=ready(facts),
            version=self.version(facts),
            context_length=listed_context(facts) if isinstance(context, Unknown) else context,
            options=info if isinstance(info, Unknown) else shown(info),
            **told,
        )

    def rule(self, facts: Facts) -> AcceptanceRule:
        """See `Adapter`. Simulated acceptance is set in the environment, where it is not seen."""
        info = self._info(facts)
        absent = [] if isinstance(info, Unknown) else [n for n in _THRESHOLDS if n not in info]
        return acceptance_rule(
            info, _EXACT, f"no {absent[0]} in its server info" if absent else None
        )

    @staticmethod
    def _info(facts: Facts) -> Mapping[str, Any] | Unknown:
        return facts.first_object(INFO, OLD_INFO)


_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of the processes that work on the same requests together."""


def _gauge(scrape: Scrape, name: str) -> Mapping[Labels, float] | Unknown:
    """A gauge's series, one for each engine.

    With priorities a series for each stands beside the total, whose label is empty.
    """
    series = scrape.gauge(name)
    if isinstance(series, Unknown):
        return series
    totals = {k: v for k, v in series.items() if not dict(k).get("priority")}
    return _copies(name, totals) or totals


def _copies(name: str, series: Iterable[Labels]) -> Unknown | None:
    """Several ranks of one engine report the same requests: their sum is no number of them."""
    engines = Counter(tuple(p for p in labels if p[0] not in _RANKS) for labels in series)
    if max(engines.values(), default=0) > 1:
        return Unknown(f"{name} comes from several ranks of one engine, which share its requests")
    return None


def _retracted_twice(scrape: Scrape | Unknown) -> Unknown | None:
    if isinstance(scrape, Unknown) or (name := scrape.counter(COUNTERS.preemptions[0])) is None:
        return None
    return _copies(name, scrape.series[name])


def _cached_twice(scrape: Scrape | Unknown) -> Unknown | None:
    """Cached tokens by source and in total side by side: what they add up to is not known."""
    if isinstance(scrape, Unknown) or (name := scrape.counter(COUNTERS.prefix_hit[0])) is None:
        return None
    sources = {labels.get("cache_source") for labels in scrape.labels(name)}
    if "total" in sources and len(sources) > 1:
        return Unknown(f"{name} has a total beside its sources; this version's sum is ambiguous")
    return None


def _capacity(info: Mapping[str, Any]) -> Count:
    """Tokens that all engines hold. At the top is what one of them holds."""
    name = "max_total_num_tokens"
    if info.get(name) is not None and info.get("dp_size") in (None, 1):
        return count(info[name], name)
    states = info.get("internal_states")
    found = [s[name] for s in states if isinstance(s, Mapping) and name in s] if isinstance(
        states, list
    ) else []  # fmt: skip
    if not found:
        return Unknown(f"{_NO_FIELD}: {name}")
    return added(*(count(each, name) for each in found))


def _counts(where: str, details: Mapping[str, Any]) -> RequestSpeculation:
    steps, drafted = _named(details, _STEPS), _named(details, _DRAFTED)
    histogram: Histogram = Unknown("no histogram in the details")
    written = next((details[n] for n in _HISTOGRAM if details.get(n) is not None), None)
    if written is not None:
        histogram = histogram_of(written, "the histogram")
    if histogram == () and steps != 0:
        histogram = Unknown("the histogram is empty although steps were verified")
    if drafted == 0 and steps != 0:
        drafted = Unknown("0 drafted although steps were verified: it fills in what it lacks by 0")
    accepted = _named(details, _ACCEPTED)
    return RequestSpeculation.of(
        where, steps=steps, drafted=drafted, accepted=accepted, histogram=histogram
    )


def _of_usage(where: str, payloads: list[Payload]) -> RequestSpeculation | None:
    """Counts in OpenAI's own fields, which proxies pass on; None if there are none.

    Both are 0 where nothing was verified, and in a stream also where it is not known.
    """
    found, _ = last_with(payloads, "usage")
    usage = None if found is None else found["usage"]
    details = usage.get(_USAGE) if isinstance(usage, Mapping) else None
    if not isinstance(details, Mapping):
        return None
    accepted, rejected = (
        count(details.get(f"{kind}_prediction_tokens"), f"{kind}_prediction_tokens")
        for kind in ("accepted", "rejected")
    )
    drafted = added(accepted, rejected)
    if isinstance(drafted, Unknown) or drafted == 0:
        return None
    missing = Unknown(f"{_USAGE} has no steps")
    return RequestSpeculation.of(
        where, steps=missing, drafted=drafted, accepted=accepted, histogram=missing
    )


def _named(details: Mapping[str, Any], names: tuple[str, ...]) -> Count:
    """A count under any of its names; two names that disagree tell nothing."""
    values = {name: details[name] for name in names if details.get(name) is not None}
    if len(set(map(repr, values.values()))) > 1:
        return Unknown(f"one count under several names, and they differ: {values}")
    name, value = next(iter(values.items()), (names[0], None))
    return count(value, name)


_READINGS: Readings = {
    "kv_cache_usage": lambda m: fullest(m.gauge("sglang:token_usage"), "sglang:token_usage"),
    "kv_cache_tokens": lambda m: summed(_gauge(m, "sglang:max_total_num_tokens"), "the KV cache"),
    "running": lambda m: summed(_gauge(m, "sglang:num_running_reqs"), "running requests"),
    "queued": lambda m: summed(_gauge(m, "sglang:num_queue_reqs"), "queued requests"),
    "preemptions": lambda m: _retracted_twice(m) or m.total(*COUNTERS.preemptions),
    "prefix_queried_tokens": lambda m: m.total(*COUNTERS.prefix_queried),
    "prefix_hit_tokens": lambda m: _cached_twice(m) or m.total(*COUNTERS.prefix_hit),
}
