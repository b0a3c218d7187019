"""Named sampling settings, which prompt gets which, and one seed for each generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError
from specdecode.workload.split import seeded_hash


class SamplingSetting(BaseModel):
    """A named way to sample, such as "greedy" or "sampled"; `params` carry no seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    params: SamplingParams

    def recorded(self) -> dict[str, Any]:
        """The `sampling` field of a record: alike in all rows of a setting, so without a seed."""
        return {"name": self.name, **self.params.model_dump(mode="json", exclude={"seed"})}


def settings_from(options: Iterable[Mapping[str, Any]]) -> list[SamplingSetting]:
    """Settings from plain mappings `{name, temperature, …}`, as a params file has them.

    Raises:
        ConfigError: no setting, a name missing or used twice, a parameter unknown or out of range.
    """
    settings: list[SamplingSetting] = []
    for number, option in enumerate(options, start=1):
        fields = dict(option)
        name = fields.pop("name", None)
        if not isinstance(name, str) or not name or "/" in name:
            raise ConfigError(f"sampling setting {number}: needs a 'name' without '/'")
        if fields.get("seed") is not None:
            raise ConfigError(f"sampling setting {name!r}: the seed comes from the master seed")
        try:
            settings.append(SamplingSetting(name=name, params=SamplingParams(**fields)))
        except ConfigError as error:
            raise ConfigError(f"sampling setting {name!r}: {error}") from error
    several = next((s for s in settings if s.params.n > 1), None)
    if several is not None:
        raise ConfigError(
            f"sampling setting {several.name!r}: n={several.params.n}, but one reply a prompt is "
            "measured; leave n out"
        )
    if not settings:
        raise ConfigError("no sampling setting; give at least one, such as {name: greedy}")
    if len({s.name for s in settings}) < len(settings):
        raise ConfigError("two sampling settings have the same name")
    return settings


def assign(
    prompt_ids: Sequence[str],
    settings: Sequence[SamplingSetting],
    *,
    mode: Literal["all", "rotate"] = "all",
) -> dict[str, list[str]]:
    """Names of the settings each prompt is decoded with.

    Args:
        prompt_ids: in the order of measurement.
        settings: all settings.
        mode: "all" gives every prompt every setting; "rotate" gives each prompt one, in turn,
            which halves the cost of two settings at the price of pairing across them.
    """
    names = [s.name for s in settings]
    if mode == "all":
        return {name: list(names) for name in prompt_ids}
    return {name: [names[i % len(names)]] for i, name in enumerate(prompt_ids)}


def generation_seed(master_seed: int, prompt_id: str, sampling_name: str, arm: str) -> int:
    """Seed of one generation, in [0, 2^63).

    SHA-256 of all four parts, so arms are independent draws: sharing a seed would correlate them
    and make a test of their difference too sure of itself.
    """
    return seeded_hash("generation", master_seed, prompt_id, sampling_name, arm) % 2**63
