"""What a server says of itself at one moment: load, memory, version, options in force."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from specdecode.workload.engines.facts import Facts
from specdecode.workload.engines.metrics_text import Labels, Scrape
from specdecode.workload.engines.unknown import Count, Unknown, count, split

Options = Mapping[str, Any] | Unknown

Readings = Mapping[str, Callable[[Scrape], object]]
"""How an engine's metrics tell the fields of its state."""

_SECRET = re.compile(r"(key|secret|password|passphrase|token|credential)s?$")
_NO_SECRET = re.compile(r"^(bos|eos|eot|eom|pad|unk|mask|sep|cls)_token$")
_LONG = 1000


@dataclass(frozen=True)
class ServerState:
    """One moment of one server.

    Attributes:
        ready: whether it takes requests now, or None.
        version: of the engine, or None.
        models: names under which it serves models.
        context_length: most tokens of a prompt and its reply together, or None.
        kv_cache_usage: share of the cache in use, 0 to 1, of the fullest engine; or None.
        kv_cache_tokens: tokens the cache holds, all engines together, or None.
        running: requests being decoded, or None.
        queued: requests waiting, or None.
        preemptions: requests computed again since the server started, or None.
        prefix_queried_tokens: prompt tokens looked up in the prefix cache since then, or None.
        prefix_hit_tokens: those of them found there, or None.
        options: settings really in force, as far as it shows them, or None; secrets left out.
        unknown: why, for everything that is None.
    """

    ready: bool | None = None
    version: str | None = None
    models: tuple[str, ...] = ()
    context_length: int | None = None
    kv_cache_usage: float | None = None
    kv_cache_tokens: int | None = None
    running: int | None = None
    queued: int | None = None
    preemptions: int | None = None
    prefix_queried_tokens: int | None = None
    prefix_hit_tokens: int | None = None
    options: Mapping[str, Any] | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, models: Sequence[str], **told: object) -> Self:
        """From what was told, each a value or why there is none."""
        values, reasons = split(told)
        return cls(models=tuple(models), unknown=reasons, **cast("dict[str, Any]", values))


def from_metrics(scrape: Scrape | Unknown, readings: Readings) -> dict[str, object]:
    """What metrics tell of a state, by field; the same reason for all where there are none."""
    if isinstance(scrape, Unknown):
        return dict.fromkeys(readings, scrape)
    return {field: read(scrape) for field, read in readings.items()}


def summed(series: Mapping[Labels, float] | Unknown, what: str) -> Count:
    """A gauge that counts, over all engines of a server."""
    return series if isinstance(series, Unknown) else count(sum(series.values()), what)


def fullest(series: Mapping[Labels, float] | Unknown, what: str) -> float | Unknown:
    """A gauge that is a share, of the engine where it is largest: that one preempts first."""
    if isinstance(series, Unknown):
        return series
    values = list(series.values())
    if not values or not all(math.isfinite(v) and 0 <= v <= 1 for v in values):
        return Unknown(f"{what} is {values}, which is no share between 0 and 1")
    return max(values)


def ready(facts: Facts) -> bool | Unknown:
    """Whether `/health` says that requests are taken."""
    answer = facts.answers.get("/health")
    if answer is None:
        return Unknown(f"/health: {facts.failures.get('/health', 'was not asked for')}")
    if answer.ok or answer.status == 503:
        return answer.ok
    return Unknown(f"/health answered with HTTP status {answer.status}")


def served(facts: Facts) -> list[str]:
    """Names of the models that a server lists."""
    return [m["id"] for m in facts.models() if isinstance(m.get("id"), str)]


def listed_context(facts: Facts) -> Count:
    """The context length in the list of models, if all models have the same."""
    listed = [m["max_model_len"] for m in facts.models() if m.get("max_model_len") is not None]
    if len(set(map(repr, listed))) > 1:
        return Unknown(f"/v1/models lists several context lengths: {listed}")
    return count(listed[0] if listed else None, "max_model_len in /v1/models")


def shown(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options fit to be kept: secrets left out, long texts by their SHA-256."""
    return {str(name): _kept(str(name), value) for name, value in options.items()}


def _kept(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return shown(value)
    if isinstance(value, list):
        return [_kept(name, each) for each in value]
    if not isinstance(value, str) or not value:
        return value
    lower = name.lower()
    is_number_of_tokens = lower.endswith("tokens") and value.isdecimal()
    if _SECRET.search(lower) and not (_NO_SECRET.match(lower) or is_number_of_tokens):
        return "(left out)"
    if len(value) > _LONG:
        return "sha256:" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return value
