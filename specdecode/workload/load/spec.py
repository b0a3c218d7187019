"""Everything that was asked of a load run, and the hash that every row of it carries."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specdecode import __version__
from specdecode.errors import ConfigError
from specdecode.workload.load.arrivals import Arrivals, Constant, Gamma, Kind, Ramp
from specdecode.workload.load.salt import Repeats
from specdecode.workload.load.sampling import Setting, mixed_settings, one_setting

SCHEMA: Final = "specdecode.load/1"
SLO_KEYS: Final = ("ttft", "tpot", "e2e")

Api = Literal["chat", "completions"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=1, lt=2**31)]


class LoadSpec(BaseModel):
    """One load run. Two runs with the same spec and files send the same requests.

    Raises:
        ConfigError: a value is out of range, or two of them do not go together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(description="base address, up to but without /v1")
    api: Api = "chat"
    model: str
    arm: Annotated[str, Field(pattern=r"^[^/\s]+$")] = "load"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    arrivals: Kind = "closed"
    rate: Positive | None = Field(None, description="requests per second, at the start of a ramp")
    burstiness: Positive = Field(1.0, description="shape of the gamma law")
    final_rate: Positive | None = Field(None, description="at the end of a ramp")
    ramp_s: Positive | None = Field(None, description="how long a ramp takes")
    speed_up: Positive = Field(1.0, description="of a trace")
    concurrency: Number | None = Field(None, description="clients of a closed loop")
    max_in_flight: Number | None = Field(
        None, description="cap of an open loop; latency still counts from the schedule"
    )
    requests: Number | None = None
    duration_s: Positive | None = Field(None, description="nothing is sent after it")

    prompts: Path | None = None
    prompt_format: str = "auto"
    trace: Path | None = None
    trace_format: str = "auto"
    input_tokens: Number | None = Field(None, description="length of synthetic prompts")
    vocab_size: Number | None = Field(None, description="synthetic prompts as ids below it")
    repeats: Repeats = "refuse"
    warm_up: Annotated[int, Field(ge=0, le=10_000)] = 3
    cancel_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    cancel_after: Number = Field(5, description="chunks after which a cancelled request is closed")

    max_tokens: Number | None = Field(None, description="None: the trace's, else 128")
    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    ignore_eos: bool = False
    mix: tuple[dict[str, Any], ...] = Field(
        (), description="sampling settings to draw from, instead of the three above"
    )
    neutral_fields: bool = Field(
        False, description="send sampling fields also at their neutral value"
    )
    extra_body: dict[str, Any] = Field(default_factory=dict)
    allow_lossy: bool = Field(
        False, description="measure a server whose settings change its target's distribution"
    )
    include_usage: bool = True
    token_ids: bool = False
    keep_text: bool = False

    deadline_s: Positive = 300.0
    idle_timeout_s: Positive = 60.0
    connect_timeout_s: Positive = 10.0
    give_up_after: Annotated[int, Field(ge=0)] = Field(
        50, description="connection failures in a row that end the run; 0 never ends it"
    )
    max_lag_s: Positive = Field(0.05, description="client lag beyond which a request is late")
    slo: dict[str, Positive] = Field(default_factory=dict, description="seconds by ttft, tpot, e2e")
    price_per_hour: Positive | None = None
    currency: str = "USD"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            problem = first["msg"].removeprefix("Value error, ")
            raise ConfigError(f"load: {name}: {problem}" if name else f"load: {problem}") from error

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        kind = self.arrivals
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{self.url!r} is no http or https address; write it as http://127.0.0.1:8000"
            )
        _ = parts.port  # raises when it is none
        if parts.query or parts.fragment:
            raise ValueError(f"{self.url!r} has a query or fragment; give the bare address")
        if parts.username or parts.password:
            raise ValueError("an address with a password in it would be recorded; use an API key")
        if unknown := sorted(set(self.slo) - set(SLO_KEYS)):
            raise ValueError(f"unknown SLO {unknown[0]!r}; known are {', '.join(SLO_KEYS)}")
        _needed(kind == "closed", self.concurrency, "a closed loop", "concurrency")
        _needed(kind in ("poisson", "gamma", "constant", "ramp"), self.rate, kind, "rate")
        _needed(kind == "ramp", self.final_rate, kind, "final_rate")
        _needed(kind == "ramp", self.ramp_s, kind, "ramp_s or a duration")
        _needed(kind == "trace", self.trace, kind, "trace")
        _only(kind == "ramp", self.final_rate, None, "a final rate belongs to ramp arrivals")
        _only(kind == "ramp", self.ramp_s, None, "a length of the ramp belongs to ramp arrivals")
        _only(self.open_loop, self.max_in_flight, None, "max_in_flight caps an open loop")
        _only(kind == "gamma", self.burstiness, 1.0, "burstiness belongs to gamma arrivals")
        _only(kind == "trace", self.speed_up, 1.0, "speed_up belongs to trace arrivals")
        if self.prompts is None and self.trace is None and self.input_tokens is None:
            raise ValueError("nothing to send; give --prompts, --trace or --input-tokens")
        if self.prompts is not None and self.input_tokens is not None:
            raise ValueError("prompts come from a file or are made to a length, not both")
        if self.vocab_size is not None and (self.prompts or self.api == "chat"):
            raise ValueError("token ids (--vocab-size) need --input-tokens and --api completions")
        if kind != "trace" and self.requests is None and self.duration_s is None:
            raise ValueError("endless; give --requests or --duration")
        if self.mix and (self.temperature, self.top_p, self.ignore_eos) != (0.0, 1.0, False):
            raise ValueError(
                "temperature, top_p and ignore_eos belong into each setting of the mix"
            )
        _ = self.settings  # raises what is wrong with them
        json.dumps(self.extra_body, allow_nan=False)  # raises what cannot be sent
        return self

    def schedule(self) -> Arrivals | None:
        """The arrivals; None for a trace, whose times are in its file, and for a closed loop."""
        if self.rate is None:
            return None
        if self.arrivals == "constant":
            return Constant(self.rate)
        if self.arrivals == "ramp" and self.final_rate is not None and self.ramp_s is not None:
            return Ramp(self.rate, self.final_rate, self.ramp_s)
        if self.arrivals in ("poisson", "gamma"):
            return Gamma(self.rate, self.burstiness)
        return None

    @property
    def open_loop(self) -> bool:
        """Whether requests are sent at their own times."""
        return self.arrivals != "closed"

    @property
    def path(self) -> str:
        """Address that requests go to."""
        return f"{self.url}/v1/{'chat/completions' if self.api == 'chat' else 'completions'}"

    @property
    def settings(self) -> tuple[Setting, ...]:
        """How requests are sampled: one way, or the mix that each draws from."""
        if self.mix:
            return mixed_settings(self.mix, self.extra_body)
        one = one_setting(self.temperature, self.top_p, self.extra_body, ignore_eos=self.ignore_eos)
        return (one,)


def _needed(applies: bool, value: object, what: str, name: str) -> None:
    if applies and value is None:
        raise ValueError(f"{what} needs {name}")


def _only(applies: bool, value: object, unset: object, problem: str) -> None:
    if not applies and value != unset:
        raise ValueError(problem)


def base_and_api(url: str, api: str | None) -> tuple[str, str | None]:
    """A base address and an API from an address as people write it.

    `http://h:1`, `http://h:1/v1` and `http://h:1/v1/chat/completions` have the same base; the last
    one also says which API.

    Raises:
        ConfigError: the address says one API and the option another.
    """
    base = url.rstrip("/")
    said = None
    for name, tail in (("chat", "/chat/completions"), ("completions", "/completions")):
        if base.endswith(tail):
            base, said = base.removesuffix(tail), name
            break
    if said and api and said != api:
        raise ConfigError(f"{url} is the {said} API, but {api} was asked for")
    return base.removesuffix("/v1"), said or api


def manifest_of(spec: LoadSpec, server: dict[str, Any]) -> dict[str, Any]:
    """What a run was given; its hash stands in every row.

    Args:
        spec: of the run.
        server: what the server said about itself.

    Raises:
        OSError: a file cannot be read.
    """
    files = {"prompts": spec.prompts, "trace": spec.trace}
    return {
        "schema": SCHEMA,
        "spec": spec.model_dump(mode="json"),
        "files": {name: _sha256(path) for name, path in files.items() if path is not None},
        "server": server,
        "client": {"specdecode": __version__, "python": platform.python_version()},
    }


def manifest_sha256(manifest: dict[str, Any]) -> str:
    """SHA-256 of the manifest as JSON with sorted keys and no spaces."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
