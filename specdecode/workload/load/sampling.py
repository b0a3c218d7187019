"""How requests are sampled: all alike, or each by a setting that is drawn from a mix.

What a row records is what its request asked for, in the form the audit reads: the body and the
record are both made from the same `SamplingParams`. Fields that the audit cannot apply are refused
in a mix. In other fields of a request (`extra_body`) they are sent and recorded, so that the audit
refuses the rows instead of judging them by another law.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError, PromptFileError
from specdecode.workload.load.importers.json_stream import json_lines
from specdecode.workload.sampling import SamplingSetting, settings_from
from specdecode.workload.split import seeded_hash

PARAMETERS: Final = frozenset(SamplingParams.model_fields) - {"seed", "n", "logprobs"}
"""Fields that decide which reply may come."""
_NEUTRAL: Final = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty",
)  # fmt: skip
_NOT_RECORDED: Final = frozenset(
    {
        "logprobs", "top_logprobs", "stream_options", "return_token_ids", "user", "metadata",
        "store", "service_tier", "priority", "request_id", "cache_salt", "chat_template_kwargs",
        "return_spec_tokens_details", "timings_per_token", "cache_prompt", "id_slot",
    }
)  # fmt: skip
"""Other fields that do not change the law of a reply to a given prompt."""
_OF_THE_RUN: Final = {
    "seed": "seeds of replies follow from --seed",
    "n": "one reply to each request is measured",
    "stream": "replies are read as streams",
    "model": "it is named by --model",
    "messages": "prompts come from the plan",
    "prompt": "prompts come from the plan",
}


@dataclass(frozen=True)
class Setting:
    """One way to sample.

    Args:
        recorded: name and parameters, as rows hold them.
        weight: share of requests, relative to the other settings.
        other: fields of the request that the audit cannot apply.
    """

    recorded: SamplingSetting
    weight: float = 1.0
    other: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """In rows and summary."""
        return self.recorded.name

    @property
    def greedy(self) -> bool:
        """Whether there is nothing to draw, and so no seed."""
        return self.recorded.params.is_greedy

    @property
    def max_tokens(self) -> int | None:
        """Most tokens in a reply, if the setting says so."""
        params = self.recorded.params
        return params.max_tokens if "max_tokens" in params.model_fields_set else None

    def body(self, *, in_full: bool) -> dict[str, Any]:
        """Fields of a request, without its length and seed.

        Args:
            in_full: also fields at their neutral value, for servers that would otherwise fill in
                values of their own.
        """
        params = self.recorded.params
        always = _NEUTRAL if in_full else ("temperature",) if self.greedy else _NEUTRAL[:2]
        wanted = (params.model_fields_set | set(always)) & PARAMETERS - {"max_tokens"}
        found = params.model_dump(mode="json", include=wanted)
        if found.get("top_k") == 0:
            found["top_k"] = -1  # how every server but ours writes "all"
        return found

    def record(self, max_tokens: int, seed: int | None) -> dict[str, Any]:
        """The `sampling` field of a row."""
        asked = self.recorded.recorded() | {"max_tokens": max_tokens}
        return asked | ({} if seed is None else {"seed": seed}) | self.other


def one_setting(
    temperature: float, top_p: float, extra_body: Mapping[str, Any], *, ignore_eos: bool
) -> Setting:
    """The setting of a run without a mix; `extra_body` has the last word.

    Raises:
        ConfigError: a value is out of range, or a field belongs to the run as a whole.
    """
    _refuse_fields_of_the_run(extra_body)
    given: dict[str, Any] = {"temperature": temperature, "top_p": top_p}
    if ignore_eos:
        given["ignore_eos"] = True
    given |= {name: value for name, value in extra_body.items() if name in PARAMETERS}
    given["name"] = "greedy" if given["temperature"] == 0 else "sampled"
    return Setting(_checked(given), other=_unknown_to_the_audit(extra_body))


def mixed_settings(
    mix: Sequence[Mapping[str, Any]], extra_body: Mapping[str, Any]
) -> tuple[Setting, ...]:
    """The settings of a mix.

    Raises:
        ConfigError: a setting is wrong, two have the same name, or other fields of the request
            would change all of them.
    """
    _refuse_fields_of_the_run(extra_body)
    if twice := sorted(PARAMETERS & set(extra_body)):
        raise ConfigError(f"{twice[0]!r} belongs into each setting of the mix, not beside it")
    other = _unknown_to_the_audit(extra_body)
    found = tuple(_setting(number, given, other) for number, given in enumerate(mix, start=1))
    names = [setting.name for setting in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two settings of the mix have the name {twice[0]!r}")
    return found


def read_mix(path: Path) -> list[dict[str, Any]]:
    """The settings of a file of JSON lines, each checked by itself.

    Raises:
        PromptFileError: the file cannot be read, is empty, or a line is no setting.
    """
    found: list[dict[str, Any]] = []
    for line, given in json_lines(path):
        try:
            _setting(len(found) + 1, given, {})
        except ConfigError as error:
            raise PromptFileError(path, line, None, str(error)) from error
        found.append(dict(given))
    if not found:
        raise PromptFileError(path, None, None, "holds no sampling setting")
    return found


def drawn(settings: Sequence[Setting], seed: int, *names: object) -> Setting:
    """The setting of one request: the same seed and names give the same, whatever was before."""
    if len(settings) == 1:
        return settings[0]
    draw = random.Random(seeded_hash("sampling", seed, *names))  # noqa: S311 - no secret
    return draw.choices(settings, [setting.weight for setting in settings])[0]


def _setting(number: int, given: Mapping[str, Any], other: dict[str, Any]) -> Setting:
    fields = {name: value for name, value in given.items() if value is not None}
    name = fields.setdefault("name", f"setting-{number}")
    weight = fields.pop("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
        raise ConfigError(f"sampling setting {name!r}: weight must be above 0, not {weight!r}")
    if not math.isfinite(weight):
        raise ConfigError(f"sampling setting {name!r}: weight must be finite")
    if unknown := sorted(set(fields) - PARAMETERS - {"name"}):
        why = _OF_THE_RUN.get(
            unknown[0], "the audit cannot apply it, so it would find a correct server biased"
        )
        raise ConfigError(
            f"sampling setting {name!r}: {unknown[0]!r} cannot be asked for here: {why}. "
            f"Known are name, weight, {', '.join(sorted(PARAMETERS))}"
        )
    return Setting(_checked(fields), float(weight), other)


def _checked(fields: Mapping[str, Any]) -> SamplingSetting:
    """Raises ConfigError unless it is one setting with parameters in range."""
    whole = {name: value for name, value in fields.items() if value is not None}
    if whole.get("top_k") == -1:
        whole["top_k"] = 0
    (setting,) = settings_from([whole])
    return setting


def _refuse_fields_of_the_run(extra_body: Mapping[str, Any]) -> None:
    for name, why in _OF_THE_RUN.items():
        if name in extra_body:
            raise ConfigError(f"{name!r} cannot be another field of the request: {why}")


def _unknown_to_the_audit(extra_body: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in extra_body.items() if k not in PARAMETERS | _NOT_RECORDED}
