"""The server as an engine: what it says of itself, before, during and after a load."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from specdecode.errors import ConfigError
from specdecode.workload.engines import (
    Detected,
    Facts,
    LossyEngineError,
    RequestSpeculation,
    Server,
    ServerError,
    ServerState,
    adapter_of,
    detect,
    differences,
)
from specdecode.workload.load.client import usable_key
from specdecode.workload.load.observation import Observation

AUTO = "auto"
_SHOWN = 10


class EngineSide:
    """Reads a server while load is sent to it.

    Args:
        detected: what the server was taken for.
        api_key: sent as a bearer token.
    """

    def __init__(self, detected: Detected, api_key: str | None = None) -> None:
        self.detected = detected
        self._api_key = api_key
        self._told: list[RequestSpeculation] = []
        self._readings: list[Facts] = []
        self._failures: list[str] = []

    @classmethod
    def find(cls, url: str, name: str, api_key: str | None) -> EngineSide:
        """Ask a server what it is.

        Args:
            url: its base address.
            name: of its engine, or "auto".
            api_key: sent as a bearer token.

        Raises:
            ConfigError: there is no such engine, or the key cannot be one.
            ServerError: nothing answered.
        """
        known = None if name == AUTO else adapter_of(name)
        api_key = usable_key(api_key)
        found = asyncio.run(detect(url, api_key=api_key))
        if known is not None and known.name != found.engine:
            version = known.version(found.facts)
            said = version if isinstance(version, str) else None
            found = Detected(known, ("named by the user",), found.doubts, said, found.facts)
        return cls(found, api_key)

    @property
    def only_model(self) -> str:
        """The one model there is.

        Raises:
            ConfigError: there is none, or several.
        """
        facts = self.detected.facts
        answer = facts.answers.get("/v1/models")
        if answer is not None and answer.status in (401, 403):
            raise ConfigError(
                f"{facts.base_url} wants an API key, or another one (HTTP {answer.status}): put it "
                "into OPENAI_API_KEY, or name its variable with --api-key-env"
            )
        names = self._models
        if len(names) != 1:
            raise ConfigError(
                f"{facts.base_url} lists {len(names)} models ({_shown(names)}); choose with --model"
            )
        return names[0]

    def model_named(self, name: str | None) -> str:
        """The model that requests ask for.

        Args:
            name: as the user gave it; None takes the only one.

        Raises:
            ConfigError: the server lists its models, and this is none of them; or see `only_model`.
        """
        if name is None:
            return self.only_model
        listed = self._models
        # Proxies list patterns, such as openai/*.
        if listed and not any(name == each or fnmatchcase(name, each) for each in listed):
            raise ConfigError(
                f"{self.detected.facts.base_url} has no model '{name}'; it lists {_shown(listed)}"
            )
        return name

    @property
    def _models(self) -> list[str]:
        return [str(entry["id"]) for entry in self.detected.facts.models() if entry.get("id")]

    @property
    def request_fields(self) -> dict[str, Any]:
        """What requests carry so that replies tell how drafting went; usage is asked for apart."""
        fields = self.detected.adapter.request_fields(stream=True)
        return {name: value for name, value in fields.items() if name != "stream_options"}

    @property
    def fills_in_sampling(self) -> bool:
        """Whether the engine fills in sampling values for those that a request leaves out.

        vLLM and SGLang take them from the model's generation_config.json, llama.cpp has a top-k of
        40 and a min-p of 0.05.
        """
        return self.detected.engine in ("vllm", "sglang", "llama.cpp")

    def refuse_lossy(self) -> None:
        """Stop where the output would not be the target's.

        Raises:
            LossyEngineError: the server shows a setting that changes the distribution.
        """
        try:
            self.detected.adapter.rule(self.detected.facts).refuse_lossy(self.detected.engine)
        except LossyEngineError as error:
            raise LossyEngineError(f"{error}. --allow-lossy measures it all the same") from error

    @property
    def keeps_connections(self) -> bool:
        """Whether a connection is still there after a stream. llama.cpp closes it at once.

        Seen with its build of late 2026, whose streams promise `Keep-Alive: timeout=5`.
        """
        return self.detected.engine != "llama.cpp"

    def witness(self) -> dict[str, Any]:
        """What the server said of itself before the load, for the manifest."""
        adapter, facts = self.detected.adapter, self.detected.facts
        state = adapter.state(facts)
        return {
            "engine": self.detected.engine,
            "version": self.detected.version,
            "evidence": list(self.detected.evidence),
            "doubts": list(self.detected.doubts),
            "models": list(state.models),
            "context_length": state.context_length,
            "options": _plain(state.options),
            "acceptance_rule": self._rule(facts),
        }

    def read(self, seen: Observation) -> Mapping[str, Any]:
        """Fields of a record: how drafting went in one request. Every request must come here."""
        adapter, version = self.detected.adapter, self.detected.version
        if seen.status == "ok":
            told = adapter.of_reply(seen.last_payloads, version)
        else:
            told = RequestSpeculation.nothing(adapter.name, f"the request was {seen.status}")
        self._told.append(told)
        return told.record_fields()

    async def look(self) -> None:
        """Read the server's counters now. That it cannot be asked is noted, and no error."""
        try:
            async with Server(self.detected.facts.base_url, api_key=self._api_key) as server:
                self._readings.append(await server.ask(self.detected.adapter.paths))
        except ServerError as error:
            self._failures.append(str(error))

    def report(self) -> dict[str, Any]:
        """JSON-safe: what the server did during the load, by its counters and by its replies."""
        found = report_without_counters(
            self.witness() | {"acceptance_rule": self._worst_rule()}, self._failures
        )
        if len(self._readings) < 2 or self._failures:
            return found
        before, after = self._readings[0], self._readings[-1]
        interval = self.detected.adapter.between(before, after)
        state = asdict(self.detected.adapter.state(after))
        return found | {
            "counters": {**_plain(asdict(interval)), "prefix_hit_rate": interval.prefix_hit_rate},
            "state_after": {name: _plain(value) for name, value in state.items() if name in _STATE},
            "requests_and_counters_differ": list(differences(self._told, interval.speculation)),
        }

    def _rule(self, facts: Facts) -> dict[str, Any]:
        rule = self.detected.adapter.rule(facts)
        return {"seen": rule.seen, "findings": list(rule.findings)}

    def _worst_rule(self) -> dict[str, Any]:
        """The lossy one, if ever one was seen: a server may be restarted in the middle of a run."""
        rules = [self._rule(facts) for facts in (self.detected.facts, *self._readings)]
        return next((rule for rule in rules if rule["seen"] == "lossy"), rules[0])


def report_without_counters(
    witness: Mapping[str, Any], could_not_be_asked: list[str]
) -> dict[str, Any]:
    """The report of a server whose counters could not be compared, such as one that was killed."""
    return {
        "engine": witness["engine"],
        "version": witness["version"],
        "acceptance_rule": witness["acceptance_rule"],
        "could_not_be_asked": could_not_be_asked,
        "counters": None,
        "state_after": None,
        "requests_and_counters_differ": None,
    }


_STATE = frozenset(ServerState.__dataclass_fields__) - {"options", "models"}


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more


def _plain(value: Any) -> Any:
    """As JSON has it: mappings and lists only, and no number that is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
