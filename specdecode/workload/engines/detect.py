"""Which engine is behind an address, by what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from specdecode.errors import ConfigError
from specdecode.workload.engines.adapter import Adapter, EngineName
from specdecode.workload.engines.facts import Facts
from specdecode.workload.engines.generic import Generic
from specdecode.workload.engines.llama_cpp import LlamaCpp
from specdecode.workload.engines.own import Own
from specdecode.workload.engines.server import Server
from specdecode.workload.engines.sglang import Sglang
from specdecode.workload.engines.tensorrt_llm import TensorRtLlm
from specdecode.workload.engines.tgi import Tgi
from specdecode.workload.engines.unknown import Unknown
from specdecode.workload.engines.vllm import Vllm

ENGINES: Mapping[EngineName, Adapter] = {
    adapter.name: adapter
    for adapter in (Own(), Vllm(), Sglang(), LlamaCpp(), Tgi(), TensorRtLlm(), Generic())
}
"""Every adapter. A new engine is one file and one entry here."""

_SPEAKS_LIKE: Mapping[EngineName, EngineName] = {"specdecode": "vllm"}
"""Engines whose signs include those of another on purpose."""


@dataclass(frozen=True)
class Detected:
    """What a server was taken for.

    Attributes:
        adapter: reads it; `Generic` unless exactly one engine gave itself away.
        evidence: what showed it.
        doubts: what speaks against it or stayed unclear; not empty for "generic".
        version: of the engine, or None.
        facts: what the server answered.
    """

    adapter: Adapter
    evidence: tuple[str, ...]
    doubts: tuple[str, ...]
    version: str | None
    facts: Facts

    @property
    def engine(self) -> EngineName:
        """The engine, or "generic"."""
        return self.adapter.name


def adapter_of(name: str) -> Adapter:
    """The adapter of an engine that is known by other means.

    Raises:
        ConfigError: no such engine.
    """
    found = next((a for a in ENGINES.values() if a.name == name), None)
    if found is None:
        raise ConfigError(f"no adapter for {name!r}; there are: {', '.join(ENGINES)}")
    return found


async def detect(
    base_url: str,
    *,
    api_key: str | None = None,
    timeout_s: float = 15.0,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Detected:
    """Ask a server what it is.

    Args:
        base_url: its address, with or without `/v1`.
        api_key: sent as a bearer token.
        timeout_s: seconds for each answer.
        transport: what carries the requests, for tests; the network if None.

    Raises:
        ConfigError: the address is not one of HTTP.
        UnreachableError, ServerTimeoutError, ProtocolError: it answered nothing at all.
        AccessDeniedError: it wants other credentials.
    """
    async with Server(
        base_url, api_key=api_key, timeout_s=timeout_s, transport=transport
    ) as server:
        return recognise(await server.ask(all_paths()))


def all_paths() -> tuple[str, ...]:
    """Everything that any adapter asks for."""
    return tuple(dict.fromkeys(path for a in ENGINES.values() for path in a.paths))


def recognise(facts: Facts) -> Detected:
    """Judge what a server answered. See `detect`."""
    signs = {name: a.evidence(facts) for name, a in ENGINES.items()}
    found = [name for name, evidence in signs.items() if evidence]
    for name, other in _SPEAKS_LIKE.items():
        if name in found and other in found:
            found.remove(other)
    if len(found) == 1:
        adapter = ENGINES[found[0]]
        return _detected(adapter, signs[found[0]], (), facts)
    if found:
        doubts = [f"{name}: {'; '.join(signs[name])}" for name in found]
        doubts.insert(0, "signs of several engines; a proxy may stand in front of them")
    else:
        doubts = ["no sign of a known engine", *_silences(facts)]
    return _detected(ENGINES["generic"], (), doubts, facts)


def _detected(
    adapter: Adapter, evidence: tuple[str, ...], doubts: Sequence[str], facts: Facts
) -> Detected:
    version = adapter.version(facts)
    return Detected(
        adapter, evidence, tuple(doubts), None if isinstance(version, Unknown) else version, facts
    )


def _silences(facts: Facts) -> list[str]:
    """Which addresses told nothing, and why."""
    answers = [f"{a.path}: HTTP status {a.status}" for a in facts.answers.values() if not a.ok]
    return answers + [f"{path}: {why}" for path, why in facts.failures.items()]
