"""What an adapter of an engine can do, and what all adapters share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

from specdecode.workload.engines.facts import METRICS, Facts
from specdecode.workload.engines.interval import Interval
from specdecode.workload.engines.rule import AcceptanceRule
from specdecode.workload.engines.speculation import RequestSpeculation
from specdecode.workload.engines.state import ServerState
from specdecode.workload.engines.unknown import Unknown

EngineName = Literal["specdecode", "vllm", "sglang", "llama.cpp", "tgi", "tensorrt-llm", "generic"]

Payload = Mapping[str, Any]
"""JSON object of a reply: the whole body, or the data of one event of a stream."""


class Adapter(Protocol):
    """Reads one engine. Pure: what a server answered goes in, what it means comes out."""

    @property
    def name(self) -> EngineName:
        """The engine."""

    def request_fields(self, *, stream: bool) -> dict[str, Any]:
        """What the body of a request must carry for its reply to tell how drafting went.

        Args:
            stream: whether the request asks for a stream.
        """

    @property
    def paths(self) -> tuple[str, ...]:
        """What to ask a running server for."""

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """What shows that the server is this engine; empty if nothing does."""

    def version(self, facts: Facts) -> str | Unknown:
        """Version of the engine."""

    def of_reply(
        self, payloads: Iterable[Payload], version: str | None = None
    ) -> RequestSpeculation:
        """How drafting went in one request.

        Args:
            payloads: the reply's JSON, in order: one body, or the data of every event but [DONE].
            version: of the engine, for the record.
        """

    def between(self, before: Facts, after: Facts) -> Interval:
        """What the server did between two readings, for all of its clients together."""

    def state(self, facts: Facts) -> ServerState:
        """Load, memory, version and options in force."""

    def rule(self, facts: Facts) -> AcceptanceRule:
        """Whether its configuration keeps the target's distribution."""


class OpenAiRoutes:
    """What adapters of servers with OpenAI's routes do alike, where nothing better is known.

    Attributes:
        name: of the engine.
        silence: why its replies tell nothing of drafting.
    """

    name: EngineName
    silence: str

    def request_fields(self, *, stream: bool) -> dict[str, Any]:
        """See `Adapter`.

        Counts ride on the last event of a stream, most of them only if the usage is asked for.
        Servers refuse the option where nothing streams.
        """
        return {"stream_options": {"include_usage": True}} if stream else {}

    def of_reply(
        self, payloads: Iterable[Payload], version: str | None = None
    ) -> RequestSpeculation:
        """See `Adapter`."""
        failed = last_with(payloads)[1]
        return RequestSpeculation.nothing(
            source(self.name, version, "reply"), failed or self.silence
        )


HEALTH, MODELS, VERSION = "/health", "/v1/models", "/version"


def source(engine: str, version: str | Unknown | None, where: str) -> str:
    """Where counts come from: engine, version and field."""
    known = version if isinstance(version, str) else "of unknown version"
    return f"{engine} {known}: {where}"


def error_of(payload: Payload) -> str | None:
    """The error a reply carries, or None. Servers send one inside a stream of HTTP status 200.

    Args:
        payload: JSON of a body or of one event.
    """
    error = payload.get("error")
    if payload.get("object") == "error":  # of older servers: the error is the payload itself
        error = payload
    for reason in _finish_reasons(payload):
        if reason in _FAILED:
            error = error or f"the reply ended with finish_reason {reason}"
    if error is None or error is False:
        return None
    if isinstance(error, Mapping):
        kind, message = error.get("type") or error.get("code"), error.get("message")
        return ": ".join(str(part) for part in (kind, message) if part) or "without a message"
    return str(error) or "without a message"


def _finish_reasons(payload: Payload) -> list[object]:
    """Why the replies in a payload ended; on the native route of SGLang it is an object."""
    found = [choice.get("finish_reason") for choice in choices_of(payload)]
    native = payload.get("meta_info")
    if isinstance(native, Mapping):
        found.append(native.get("finish_reason"))
    return [each.get("type") if isinstance(each, Mapping) else each for each in found]


_FAILED = ("error", "abort")
"""Reasons to end that are the server's, not the reply's: what there is of it is not whole."""


def choices_of(payload: Payload) -> list[Mapping[str, Any]]:
    """The choices of a reply; none in the event that carries the usage."""
    found = payload.get("choices")
    return [c for c in found if isinstance(c, Mapping)] if isinstance(found, list) else []


def last_with(payloads: Iterable[Payload], *keys: str) -> tuple[Payload | None, str | None]:
    """The last payload that has one of the keys, unless none of its counts can be used.

    Counts of a reply that failed are not told. Those that come with several replies to one request
    are sometimes of all of them, sometimes of one, and it is not said of which.

    Returns:
        The payload or None; why there can be no counts, or None.
    """
    found: Payload | None = None
    indexes: set[str] = set()
    for payload in payloads:
        if (error := error_of(payload)) is not None:
            return None, f"the reply carries an error: {error}"
        indexes |= {repr(choice.get("index") or 0) for choice in choices_of(payload)}
        if "meta_info" in payload:  # native route of SGLang: one object a reply, none with choices
            indexes.add(repr(payload.get("index") or 0))
        if any(payload.get(key) is not None for key in keys):
            found = payload
    if len(indexes) > 1:
        return None, f"{len(indexes)} replies to one request: whose counts these are is not told"
    return found, None


def version_at(facts: Facts, path: str, key: str) -> str | Unknown:
    """A version in the JSON object at a path."""
    found = facts.object(path)
    if isinstance(found, Unknown):
        return found
    value = found.get(key)
    return value if isinstance(value, str) and value else Unknown(f"{path} has no {key}")


def metric_names(facts: Facts, *prefixes: str, at: str = METRICS) -> tuple[str, ...]:
    """Evidence from the names of metrics."""
    scrape = facts.scrape(at)
    if isinstance(scrape, Unknown):
        return ()
    found = next((n for p in prefixes for n in scrape.starting_with(p)), None)
    return () if found is None else (f"{at} has {found}",)


def owner(facts: Facts, name: str) -> tuple[str, ...]:
    """Evidence from the list of models."""
    return (f"{MODELS} says owned_by {name}",) if name in facts.owners() else ()
