"""What a whole server did between two readings of its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from specdecode.workload.engines.counters import Names, moved, restarted
from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.metrics_text import Scrape
from specdecode.workload.engines.positions import histogram_by_position
from specdecode.workload.engines.speculation import AggregateSpeculation
from specdecode.workload.engines.unknown import Count, Unknown, added, split


@dataclass(frozen=True)
class CounterNames:
    """Names of an engine's counters; an empty tuple where it has none.

    Args:
        steps: steps that verified a draft.
        drafted: draft tokens proposed.
        accepted: draft tokens accepted.
        per_position: steps that accepted the draft token at a position, with label `position`.
        appear: whether a counter is shown only once it has counted something.
        positions_appear: whether that holds for positions.
        generated: output tokens.
        finished: requests that ended well.
        preemptions: requests that lost their cache to others and were computed again.
        prefix_queried: prompt tokens looked up in the prefix cache.
        prefix_missed: prompt tokens that were not found there, if those are counted instead.
        prefix_hit: prompt tokens that were found.
    """

    steps: Names = ()
    drafted: Names = ()
    accepted: Names = ()
    per_position: Names = ()
    appear: bool = False
    positions_appear: bool = False
    generated: Names = ()
    finished: Names = ()
    preemptions: Names = ()
    prefix_queried: Names = ()
    prefix_missed: Names = ()
    prefix_hit: Names = ()

    def all(self) -> list[Names]:
        """Every counter that the engine has, but those per position."""
        found = (
            self.steps, self.drafted, self.accepted, self.generated, self.finished,
            self.preemptions, self.prefix_queried, self.prefix_missed, self.prefix_hit,
        )  # fmt: skip
        return [names for names in found if names]


@dataclass(frozen=True)
class Interval:
    """What a server did between two readings, for all of its clients together.

    Attributes:
        speculation: how drafting went.
        generated_tokens: output tokens, or None.
        finished_requests: requests that ended well, or None.
        preemptions: requests computed again because their cache was taken, or None.
        prefix_queried_tokens: prompt tokens looked up in the prefix cache, or None.
        prefix_hit_tokens: those found there, or None.
        unknown: why, for every number that is None.
    """

    speculation: AggregateSpeculation
    generated_tokens: int | None = None
    finished_requests: int | None = None
    preemptions: int | None = None
    prefix_queried_tokens: int | None = None
    prefix_hit_tokens: int | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix_hit_rate(self) -> float | None:
        """Found per looked up; None where either is unknown or nothing was looked up."""
        if self.prefix_hit_tokens is None or not self.prefix_queried_tokens:
            return None
        return self.prefix_hit_tokens / self.prefix_queried_tokens


def interval(
    source: str,
    names: CounterNames,
    before: Facts,
    after: Facts,
    instead: Mapping[str, Unknown] | None = None,
    *,
    metrics: str = METRICS,
) -> Interval:
    """The difference of two readings of one server.

    Args:
        source: engine and version, for the record.
        names: the engine's counters.
        before: the earlier reading.
        after: the later one.
        instead: by field, why a number cannot be had from this engine at all.
        metrics: where the engine shows its counters.
    """
    was, now = before.scrape(metrics), after.scrape(metrics)
    if isinstance(was, Unknown) or isinstance(now, Unknown):
        return _nothing(source, next(m.reason for m in (was, now) if isinstance(m, Unknown)))
    if before.base_url != after.base_url or after.at < before.at:
        return _nothing(source, f"not two readings of {before.base_url}, the earlier one first")
    if (why := restarted(was, now, names.all(), absent_is_zero=names.appear)) is not None:
        return _nothing(source, why)
    missing = instead or {}
    wanted = _by_field(names)
    told = {n: missing.get(n) or _moved(was, now, names, wanted[n], n) for n in _FIELDS}
    if names.prefix_missed:
        missed = _moved(was, now, names, names.prefix_missed, "prefix_missed")
        told["prefix_queried_tokens"] = added(missed, told["prefix_hit_tokens"])
    counts = {
        n: missing.get(n) or _moved(was, now, names, getattr(names, n), n)
        for n in ("steps", "drafted", "accepted")
    }
    histogram = missing.get("histogram") or histogram_by_position(
        was,
        now,
        names.per_position,
        counts["steps"],
        counts["accepted"],
        appear=names.positions_appear,
    )
    speculation = AggregateSpeculation.of(
        source,
        steps=counts["steps"],
        drafted=counts["drafted"],
        accepted=counts["accepted"],
        histogram=histogram,
    )
    values, reasons = split(told)
    return Interval(speculation, unknown=reasons, **cast("dict[str, Any]", values))


def _nothing(source: str, why: str) -> Interval:
    return Interval(AggregateSpeculation.nothing(source, why), unknown=dict.fromkeys(_FIELDS, why))


_FIELDS = (
    "generated_tokens", "finished_requests", "preemptions",
    "prefix_queried_tokens", "prefix_hit_tokens",
)  # fmt: skip


def _by_field(names: CounterNames) -> dict[str, Names]:
    found = (
        names.generated, names.finished, names.preemptions, names.prefix_queried, names.prefix_hit
    )  # fmt: skip
    return dict(zip(_FIELDS, found, strict=True))


def _moved(was: Scrape, now: Scrape, names: CounterNames, of: Names, what: str) -> Count:
    if not of:
        return Unknown(f"this engine has no counter of {what.replace('_', ' ')}")
    return moved(was, now, of, absent_is_zero=names.appear, where=_ended_well)


def _ended_well(labels: Mapping[str, str]) -> bool:
    """Whether a series counts replies that came whole; only that counter has the label."""
    return labels.get("finished_reason") in (None, "stop", "length")
