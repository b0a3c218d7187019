"""Prometheus metrics, under vLLM's names where vLLM has the same thing.

Counters advance with every step, not when a reply ends: cancelled replies count for what they had.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from specdecode.serving.replies import Drafting, Reply
from specdecode.serving.scheduler import Scheduler

MOST_CATEGORIES = 32
OTHER, NONE = "other", "none"
_CATEGORY = re.compile(r"[a-z0-9_.-]{1,40}")
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)


class ServerMetrics:
    """Counts what a server does; a `Watcher` of its scheduler.

    Args:
        model_name: a label of every series, as in vLLM.
        gamma: draft tokens a step; 0 without a draft.
        slots: most replies decoded together.
        context: most tokens of a prompt and its reply.
    """

    def __init__(self, model_name: str, gamma: int, slots: int, context: int) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"model_name": model_name, "engine": "0"}
        self._gamma, self._capacity = gamma, slots * context
        self._categories: set[str] = set()
        self._lock = threading.Lock()
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self._prompt = counter("vllm:prompt_tokens", "Prompt tokens read.")
        self._generated = counter("vllm:generation_tokens", "Tokens written.")
        self._success = self._many(
            Counter, "vllm:request_success", "Replies that ended, by reason.", "finished_reason"
        )
        self._steps = counter("vllm:spec_decode_num_drafts", "Steps with a draft.")
        self._drafted = counter("vllm:spec_decode_num_draft_tokens", "Draft tokens proposed.")
        self._accepted = counter("vllm:spec_decode_num_accepted_tokens", "Draft tokens kept.")
        self._positions = self._many(
            Counter,
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Draft tokens kept, by place in their draft.",
            "position",
        )
        self._plain = counter("specdecode:plain_steps", "Steps of a reply without a draft.")
        self._preempted = counter("vllm:num_preemptions", "Prompts that had to be read again.")
        self._queried = counter("vllm:prefix_cache_queries", "Prompt tokens of all replies.")
        self._hit = counter(
            "vllm:prefix_cache_hits", "Those read once for several replies that join together."
        )
        self._usage = gauge("vllm:kv_cache_usage_perc", "Share of all slots' tokens in use.")
        self._bytes = gauge("specdecode:kv_cache_bytes", "Memory of the target's keys and values.")
        self._draft_bytes = gauge(
            "specdecode:draft_kv_cache_bytes", "Memory of keys and values of a draft's own."
        )
        facts = {"kv_cache_size_tokens": slots * context, "slots": slots, "context": context}
        info = Gauge(
            "vllm:cache_config_info",
            "Tokens that all slots hold.",
            [*self._labels, *facts],
            registry=self.registry,
        )
        info.labels(**self._labels, **{name: str(value) for name, value in facts.items()}).set(1)
        self._running = gauge("vllm:num_requests_running", "Replies being decoded.")
        self._waiting = gauge("vllm:num_requests_waiting", "Replies that wait.")
        self._ttft = histogram("vllm:time_to_first_token_seconds", "To the first token.", _SECONDS)
        self._e2e = histogram("vllm:e2e_request_latency_seconds", "To the last token.", _SECONDS)
        self._queue = histogram("vllm:request_queue_time_seconds", "In the queue.", _SECONDS)
        self._tpot = histogram(
            "vllm:request_time_per_output_token_seconds", "A token after the first.", _TOKEN_SECONDS
        )
        self._step_s = histogram("specdecode:step_seconds", "A step.", _TOKEN_SECONDS)
        self._refused = self._many(
            Counter, "specdecode:requests_refused", "Requests turned away, by status.", "status"
        )
        self._switches = self._many(
            Counter, "specdecode:guard_switches", "Switches of the acceptance guard, by aim.", "to"
        )
        self._lengths = self._many(
            Histogram,
            "specdecode:acceptance_length",
            "Tokens a drafted step, per reply, the target's own included.",
            "category",
            buckets=[1 + i / 2 for i in range(2 * gamma + 1)] or [1.0],
        )
        self._latency = self._many(
            Histogram,
            "specdecode:tpot_seconds",
            "Seconds a token after the first, per reply.",
            "category",
            buckets=_TOKEN_SECONDS,
        )

    def watch(self, scheduler: Scheduler) -> None:
        """Where present numbers are read."""
        self._running.set_function(lambda: scheduler.running)
        self._waiting.set_function(lambda: scheduler.waiting)
        self._usage.set_function(lambda: scheduler.cache_tokens / self._capacity)
        self._bytes.set_function(lambda: scheduler.cache_bytes)
        self._draft_bytes.set_function(lambda: scheduler.draft_cache_bytes)

    def category(self, header: str | None) -> str:
        """The label of a client's category header: a few known ones, the rest is "other"."""
        if header is None:
            return NONE
        name = header.strip().lower()
        with self._lock:
            if name in self._categories:
                return name
            if not _CATEGORY.fullmatch(name) or len(self._categories) >= MOST_CATEGORIES:
                return OTHER
            self._categories.add(name)
            return name

    def refused(self, status: int) -> None:
        """A request was answered with an error."""
        self._refused.labels(**self._labels, status=str(status)).inc()

    def switched(self, to: str) -> None:
        """The acceptance guard switched a slot."""
        self._switches.labels(**self._labels, to=to).inc()

    def joined(self, replies: Sequence[Reply]) -> None:
        """See `Watcher`."""
        tokens = len(replies[0].request.prompt)
        self._prompt.inc(tokens * len(replies))
        self._queried.inc(tokens * len(replies))
        self._hit.inc(tokens * (len(replies) - 1))

    def restarted(self, reply: Reply) -> None:
        """See `Watcher`."""
        del reply
        self._preempted.inc()

    def stepped(self, replies: Sequence[Reply], seconds: float) -> None:
        """See `Watcher`."""
        self._step_s.observe(seconds)
        for reply in replies:
            self._count(reply)

    def ended(self, reply: Reply, outcome: str) -> None:
        """See `Watcher`."""
        self._count(reply)
        if reply.joined is not None:
            self._queue.observe(reply.joined - reply.arrived)
        self._success.labels(**self._labels, finished_reason=outcome).inc()
        request = reply.request
        if outcome not in ("stop", "length"):
            return
        first, last, tokens = request.first_token_s, request.last_token_s, len(request.output)
        counts = Drafting.of(request, self._gamma)
        if counts.steps:
            length = 1 + counts.accepted / counts.steps
            self._lengths.labels(**self._labels, category=reply.category).observe(length)
        if first is None or last is None:
            return
        self._ttft.observe(first)
        self._e2e.observe(last)
        if tokens > 1:
            self._tpot.observe((last - first) / (tokens - 1))
            latency = self._latency.labels(**self._labels, category=reply.category)
            latency.observe((last - first) / (tokens - 1))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def _count(self, reply: Reply) -> None:
        """Advance the counters by what a reply has done since it was counted last."""
        request, before = reply.request, reply.counted
        now = Drafting.of(request, self._gamma)
        self._generated.inc(len(request.output) - reply.counted_tokens)
        self._steps.inc(now.steps - before.steps)
        self._plain.inc(now.plain_steps - before.plain_steps)
        self._drafted.inc(now.drafted - before.drafted)
        self._accepted.inc(now.accepted - before.accepted)
        for place in range(self._gamma):
            kept = sum(now.histogram[place + 1 :]) - sum(before.histogram[place + 1 :])
            if kept:
                self._positions.labels(**self._labels, position=str(place)).inc(kept)
        reply.counted, reply.counted_tokens = now, len(request.output)

    def _counter(self, name: str, text: str) -> Counter:
        made = Counter(name, text, [*self._labels], registry=self.registry)
        return made.labels(**self._labels)

    def _gauge(self, name: str, text: str) -> Gauge:
        made = Gauge(name, text, [*self._labels], registry=self.registry)
        return made.labels(**self._labels)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        made = Histogram(name, text, [*self._labels], registry=self.registry, buckets=buckets)
        return made.labels(**self._labels)

    def _many(self, kind: Any, name: str, text: str, label: str, **more: Sequence[float]) -> Any:
        return kind(name, text, [*self._labels, label], registry=self.registry, **more)
