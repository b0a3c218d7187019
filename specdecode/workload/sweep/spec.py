"""Everything that was asked of a sweep, and the hash by which it is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specdecode import __version__
from specdecode.errors import ConfigError
from specdecode.workload.load.spec import Api, LoadSpec, Number, Positive, manifest_sha256
from specdecode.workload.sweep.arms import Arm

SCHEMA: Final = "specdecode.sweep/1"


class SweepSpec(BaseModel):
    """One sweep: its loads, its prompts, and what replies are asked for.

    Raises:
        ConfigError: a value is out of range, or two of them do not go together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: Annotated[tuple[Number, ...], Field(min_length=1)]
    rounds: Annotated[int, Field(ge=1, le=1000)] = 3
    requests_per_client: Number = 2
    least_requests: Number = Field(1, description="of a cell, where its clients are few")
    prompts: Path | None = Field(None, description="JSON lines in Spec-Bench's fields, or folder")
    input_tokens: Number | None = Field(None, description="length of synthetic prompts")
    max_tokens: Number = 64
    api: Api = "chat"
    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    warm_up: Annotated[int, Field(ge=0, le=10_000)] = Field(2, description="before every cell")
    slo: dict[str, Positive] = Field(default_factory=dict)
    price_per_hour: Positive | None = None
    currency: str = "USD"
    deadline_s: Positive = 600.0
    idle_timeout_s: Positive = 120.0
    max_batch: Number = Field(1024, description="most requests a server decodes together")
    level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    together: bool = Field(False, description="all servers up at once, and arms in turn by load")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            problem = first["msg"].removeprefix("Value error, ")
            raise ConfigError(f"sweep: {name}: {problem}" if name else f"sweep: {problem}") from (
                error
            )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if list(self.concurrency) != sorted(set(self.concurrency)):
            raise ValueError("concurrency: name each load once, in rising order, such as 1,4,16")
        if self.max_batch < self.concurrency[-1]:
            raise ValueError(
                f"max_batch is {self.max_batch}, less than the concurrency {self.concurrency[-1]}"
            )
        if (self.prompts is None) == (self.input_tokens is None):
            raise ValueError("give prompts, or the length of synthetic ones")
        self.load_of("http://localhost", "unknown", 0, self.concurrency[0])  # its own checks
        return self

    def requests_at(self, concurrency: int) -> int:
        """Requests of one cell."""
        return max(self.least_requests, concurrency * self.requests_per_client)

    def load_of(self, url: str, model: str, seed: int, concurrency: int, **more: Any) -> LoadSpec:
        """The load of one cell: a closed loop whose replies all have the same length.

        Args:
            url: of the server.
            model: what requests ask for.
            seed: of prompts and replies.
            concurrency: clients.
            more: further fields of the load.
        """
        given: dict[str, Any] = {
            "url": url,
            "model": model,
            "seed": seed,
            "api": self.api,
            "concurrency": concurrency,
            "requests": self.requests_at(concurrency),
            "prompts": self.prompts,
            "input_tokens": self.input_tokens,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "ignore_eos": True,
            "warm_up": self.warm_up,
            "slo": self.slo,
            "price_per_hour": self.price_per_hour,
            "currency": self.currency,
            "deadline_s": self.deadline_s,
            "idle_timeout_s": self.idle_timeout_s,
            "give_up_after": 3,
        }
        return LoadSpec(**given | more)


def manifest_of(spec: SweepSpec, arms: Sequence[Arm], prompts_sha256: str) -> dict[str, Any]:
    """What a sweep was given, with the hash of it.

    Args:
        spec: of the sweep.
        arms: in the order of preference.
        prompts_sha256: of all that will be sent.
    """
    manifest = {
        "schema": SCHEMA,
        "spec": spec.model_dump(mode="json"),
        "arms": [arm.to_json() for arm in arms],
        "prompts_sha256": prompts_sha256,
        "specdecode": __version__,
    }
    return manifest | {"sha256": manifest_sha256(manifest)}
