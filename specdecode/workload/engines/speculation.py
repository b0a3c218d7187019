"""How drafting went, as a server told it, in the terms of the project's records.

S steps that verified a draft, D draft tokens proposed, A draft tokens accepted (the bonus or
resampled token is none), and steps by number of accepted tokens. Counts only: rates and means are
recomputed from them, because every engine defines its own.

Counts of one request and counts of a whole server are different types. The counters of a server are
shared by all requests that run at the same time and cannot be divided among them, so only
`RequestSpeculation` can become part of a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, cast

from specdecode.workload.engines.unknown import Count, Unknown, count, split

Histogram = tuple[int, ...] | Unknown

MAX_DRAFT_LENGTH = 4096
"""A histogram of more accepted tokens than this is taken for damage."""

_FIELDS = ("steps", "drafted", "accepted", "histogram")


@dataclass(frozen=True)
class _Speculation:
    """Counts of drafting.

    Attributes:
        source: which engine, version and field told them.
        steps: steps that verified a draft, or None.
        drafted: draft tokens proposed, or None.
        accepted: draft tokens accepted, or None.
        histogram: steps by number of accepted tokens, from 0, or None.
        unknown: why, for every count that is None.
        derived: how, for every count that was not counted but follows from others only nearly.
    """

    source: str
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    histogram: tuple[int, ...] | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)

    scope: ClassVar[Literal["per_request", "aggregate"]]

    def __post_init__(self) -> None:
        missing = {name for name in _FIELDS if getattr(self, name) is None}
        if missing != set(self.unknown):
            raise ValueError(f"None without a reason, or a reason without None: {missing}")
        if not set(self.derived) <= set(_FIELDS) - missing:
            raise ValueError(f"derived names what is unknown: {dict(self.derived)}")

    @classmethod
    def of(
        cls,
        source: str,
        *,
        steps: Count,
        drafted: Count,
        accepted: Count,
        histogram: Histogram,
        derived: Mapping[str, str] | None = None,
    ) -> Self:
        """From what was told. What contradicts itself is not believed at all.

        A histogram gives the number of steps and of accepted tokens exactly, so either may be left
        out beside it.
        """
        derived = derived or {}
        if isinstance(histogram, tuple):
            if isinstance(steps, Unknown):
                steps = sum(histogram)
            if isinstance(accepted, Unknown):
                accepted = _weighted(histogram)
        told = {"steps": steps, "drafted": drafted, "accepted": accepted, "histogram": histogram}
        counted = {name: value for name, value in told.items() if name not in derived}
        if (fault := _contradiction(counted)) is not None:
            return cls.nothing(source, f"the counts contradict each other: {fault}")
        values, reasons = split(told)
        kept = {name: how for name, how in derived.items() if name not in reasons}
        return cls(source, unknown=reasons, derived=kept, **cast("dict[str, Any]", values))

    @classmethod
    def nothing(cls, source: str, reason: str) -> Self:
        """When none of the counts was told, for one and the same reason."""
        return cls(source, unknown=dict.fromkeys(_FIELDS, reason))

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per step, the bonus or resampled token INCLUDED: 1 + A/S. None without a step."""
        if self.accepted is None or not self.steps:
            return None
        return 1 + self.accepted / self.steps

    @property
    def acceptance_rate(self) -> float | None:
        """A/D; None if nothing was proposed."""
        return self.accepted / self.drafted if self.accepted is not None and self.drafted else None


@dataclass(frozen=True)
class RequestSpeculation(_Speculation):
    """Counts of one request, told with its reply."""

    scope: ClassVar[Literal["per_request", "aggregate"]] = "per_request"

    def record_fields(self) -> dict[str, Any]:
        """The fields of a record. What is only nearly known stays null there."""
        exact = {n: None if n in self.derived else getattr(self, n) for n in _FIELDS}
        histogram = exact.pop("histogram")
        return {**exact, "acceptance_histogram": None if histogram is None else list(histogram)}


@dataclass(frozen=True)
class AggregateSpeculation(_Speculation):
    """Counts of everything a server did between two readings, other clients' requests included."""

    scope: ClassVar[Literal["per_request", "aggregate"]] = "aggregate"


def histogram_of(value: object, what: str, length: int | None = None) -> Histogram:
    """Steps by number of accepted tokens, however an engine writes them.

    Args:
        value: a list from 0, or a mapping whose keys are the numbers, as numbers or text.
        what: its name, for the reason.
        length: draft length, if told; a mapping may leave out numbers that did not occur.
    """
    if value is None:
        return Unknown(f"{what} is absent or null")
    if isinstance(value, Mapping):
        counts = _filled(value, length)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        counts = list(value)
    else:
        counts = None
    if counts is None or len(counts) > MAX_DRAFT_LENGTH + 1:
        return Unknown(f"{what} is no histogram of accepted tokens")
    found = [count(each, f"{what}[{place}]") for place, each in enumerate(counts)]
    bad = next((each for each in found if isinstance(each, Unknown)), None)
    return bad if bad is not None else tuple(cast("list[int]", found))


def _filled(value: Mapping[Any, object], length: int | None) -> list[object] | None:
    numbered: dict[int, object] = {}
    for key, each in value.items():
        text = str(key)
        if isinstance(key, bool) or not (text.isascii() and text.isdecimal()) or len(text) > 4:
            return None
        if int(text) in numbered or int(text) > MAX_DRAFT_LENGTH:
            return None
        numbered[int(text)] = each
    longest = max([*numbered, min(length or 0, MAX_DRAFT_LENGTH)])
    return [numbered.get(place, 0) for place in range(longest + 1)]


def _weighted(histogram: Sequence[int]) -> int:
    return sum(place * each for place, each in enumerate(histogram))


def _contradiction(told: Mapping[str, object]) -> str | None:
    numbers = {name: value for name, value in told.items() if isinstance(value, int)}
    steps, drafted, accepted = (numbers.get(name) for name in _FIELDS[:3])
    histogram = told.get("histogram")
    if accepted is not None and drafted is not None and accepted > drafted:
        return f"{accepted} accepted of {drafted} drafted"
    if steps == 0 and (tokens := max(drafted or 0, accepted or 0)):
        return f"{tokens} draft tokens in 0 steps"
    if isinstance(histogram, tuple):
        if steps is not None and sum(histogram) != steps:
            return f"a histogram of {sum(histogram)} steps beside {steps} steps"
        if accepted is not None and _weighted(histogram) != accepted:
            return f"a histogram of {_weighted(histogram)} accepted tokens beside {accepted}"
    return None
