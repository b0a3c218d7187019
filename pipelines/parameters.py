"""What params.yaml may hold, checked as a whole before anything is run.

A misspelt key or a number of the wrong kind would else be found by the stage that reads it, after
the hours of those before it, or by nobody. Nothing here loads torch: every stage, the cheap ones
that run each time too, starts with this check.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from pipelines.planted import NO_FAULT, PLANTABLE
from pipelines.quality.settings import ValidateSettings
from specdecode.errors import ConfigError


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _once_each(values: list[str]) -> list[str]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"must name each once; more than once: {', '.join(twice)}")
    return values


def _plantable(name: str) -> str:
    if name not in (NO_FAULT, *PLANTABLE):
        raise ValueError(f"no such fault; {NO_FAULT}, or one of {', '.join(PLANTABLE)}")
    return name


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Finite = Annotated[float, AfterValidator(_finite)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(gt=0, le=1)]
Names = Annotated[list[Text], Field(min_length=1), AfterValidator(_once_each)]


class _Section(BaseModel):
    """Strict: YAML has types of its own, so "5" and true are no numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Target(_Section):
    """The model whose output must not change."""

    source: Text
    dtype: Literal["auto", "bfloat16", "float32", "float16"]


class Draft(_Section):
    """What proposes tokens."""

    source: Text


class Sampling(_Section):
    """A named way to sample. The fields are those of `SamplingParams`, which would load torch.

    Without `seed`, which is derived for each request from seeds.sampling, and without `n`: an arm
    gives one reply to a prompt.
    """

    name: Annotated[str, Field(pattern=r"^[^/]+$", description="a name without '/'")]
    temperature: Annotated[Finite, Field(ge=0)]
    max_tokens: Count | None = None
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Share = 1.0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    repetition_penalty: Annotated[Finite, Field(gt=0)] = 1.0
    presence_penalty: Finite = 0.0
    frequency_penalty: Finite = 0.0
    logit_bias: dict[int, Finite] | None = None
    stop: Text | list[Text] = []
    ignore_eos: bool = False
    logprobs: Annotated[int, Field(ge=0, le=20)] = 0

    @field_validator("temperature")
    @classmethod
    def _divisible(cls, value: float) -> float:
        if 0 < value < 1e-4:
            raise ValueError("must be 0 (greedy) or at least 1e-4")
        return value


class Decoding(_Section):
    """Arms, ways to sample, and what they run on."""

    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)]
    arms: Names
    sampling: Annotated[list[Sampling], Field(min_length=1)]
    max_tokens: Count
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")]
    threads: Count | None
    planted_fault: Annotated[Text, AfterValidator(_plantable)] = NO_FAULT

    @field_validator("sampling")
    @classmethod
    def _told_apart(cls, settings: list[Sampling]) -> list[Sampling]:
        _once_each([setting.name for setting in settings])
        return settings


class Prompts(_Section):
    """Which prompts there are, and which of them are decoded."""

    path: Text
    first_turn_only: bool
    split_seed: Seed
    order_seed: Seed
    max_tokens: Count
    near_duplicate_jaccard: Share
    near_duplicate_overlap: Share
    checkable_categories: Annotated[list[Text], AfterValidator(_once_each)]
    split: Literal["development", "reserve"]
    limit: Count | None

    @field_validator("split", mode="before")
    @classmethod
    def _by_its_new_name(cls, value: object) -> object:
        if value == "confirmation":
            raise ValueError(
                "the half that development runs leave alone is called 'reserve' now, since it is "
                "public and confirms nothing; write reserve (docs/confirmation.md)"
            )
        return value


class Seeds(_Section):
    """One named stream per purpose."""

    sampling: Seed


class Validate(ValidateSettings):
    """The limits of the data checks, as strict as the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator(
        "required_categories", "required_languages", "required_difficulties", mode="before"
    )
    @classmethod
    def _yaml_has_no_tuples(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class Audit(_Section):
    """The test for losslessness."""

    alpha: Annotated[float, Field(gt=0, lt=1)]


class Parameters(_Section):
    """The whole of params.yaml. `profiles` is absent in the scratch copy a profile runs in."""

    profile: Text
    target: Target
    draft: Draft
    decoding: Decoding
    prompts: Prompts
    seeds: Seeds
    validate_: Annotated[Validate, Field(alias="validate")]
    audit: Audit
    profiles: dict[Text, dict[str, Any] | None] | None = None


def load_parameters(path: Path) -> dict[str, Any]:
    """Returns a params.yaml as it stands, after a check of it and of all its profiles.

    Raises:
        ConfigError: it cannot be read, or a value in it is not allowed; names every such key.
    """
    document = read_mapping(path)
    check(document, path.name)
    return document


def read_mapping(path: Path) -> dict[str, Any]:
    """Returns the mapping a YAML file holds.

    Raises:
        ConfigError: the file is missing, unreadable, not UTF-8, not YAML, empty or no mapping.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing: stages run in the folder that holds it") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start} is {error.reason}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML hands on the ValueError of a date such as 2025-13-01.
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if loaded is None:
        raise ConfigError(f"{path} is empty; it must hold a mapping")
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path} must hold a mapping, it holds {type(loaded).__name__}")
    return loaded


def check(document: Mapping[str, Any], name: str = "params.yaml") -> None:
    """Checks parameters, and again under each of their profiles.

    Raises:
        ConfigError: names `name`, every wrong key as a dotted path, and what is allowed there.
    """
    problems = list(_problems(document))
    base = {key: value for key, value in document.items() if key != "profiles"}
    profiles = document.get("profiles")
    if not problems and isinstance(profiles, Mapping):
        for profile, override in profiles.items():
            try:
                found = list(_problems(_under(base, override or {})))
            except ConfigError as error:
                problems.append(f"profiles.{profile}: {error}")
            else:
                problems.extend(f"profiles.{profile}: {problem}" for problem in found)
    if problems:
        raise ConfigError(f"{name}: {'; '.join(problems)}")


def merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `base` with `override` laid over it; mappings merge, lists and scalars are replaced.

    Raises:
        ConfigError: `override` names a key that `base` does not have, most likely a misspelling.
    """
    result = dict(base)
    for key, value in override.items():
        if key not in base:
            raise ConfigError(f"a profile in params.yaml sets '{key}', which is not a parameter")
        old = base[key]
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value
    return result


def _under(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    if "profile" in override:
        raise ConfigError("sets 'profile', but a profile is called what its key says")
    return merged(base, override)


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    try:
        parameters = Parameters.model_validate(dict(document))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            yield _told(problem)
        return
    yield from _replies_too_long(parameters)
    yield from _equal_settings(parameters.decoding)


def _replies_too_long(parameters: Parameters) -> Iterator[str]:
    """Prompts were checked to fit the context with a reply of prompts.max_tokens, no longer."""
    most = parameters.prompts.max_tokens
    asked = {"decoding.max_tokens": parameters.decoding.max_tokens}
    for number, setting in enumerate(parameters.decoding.sampling):
        if setting.max_tokens is not None:
            asked[f"decoding.sampling.{number}.max_tokens"] = setting.max_tokens
    for key, tokens in asked.items():
        if tokens > most:
            yield f"{key} is {tokens}, but must not exceed prompts.max_tokens, {most}"


def _equal_settings(decoding: Decoding) -> Iterator[str]:
    """The same law under two names would be measured twice and read as two results."""
    seen: list[tuple[str, dict[str, Any]]] = []
    for setting in decoding.sampling:
        values = setting.model_dump(exclude={"name"})
        values["max_tokens"] = values["max_tokens"] or decoding.max_tokens
        values["stop"] = [setting.stop] if isinstance(setting.stop, str) else setting.stop
        for name, others in seen:
            if others == values:
                yield f"decoding.sampling: '{name}' and '{setting.name}' have equal parameters"
        seen.append((setting.name, values))


def _told(problem: Any) -> str:
    place = problem["loc"]
    key = ".".join(str(part) for part in place)
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "extra_forbidden":
        known = ", ".join(_keys_beside(place))
        return f"{key} is not a parameter; known there: {known}"
    message = problem["msg"].removeprefix("Value error, ")
    shown = repr(problem["input"])
    return f"{key}: {message} (got {shown if len(shown) <= 80 else shown[:77] + '…'})"


def _keys_beside(place: tuple[int | str, ...]) -> list[str]:
    """Returns the keys that are allowed where an unknown one was found."""
    model: type[BaseModel] = Parameters
    for part in place[:-1]:
        if isinstance(part, int):
            continue
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        annotation = fields[part].annotation
        inner = [annotation, *get_args(annotation)]
        model = next(kind for kind in inner if isinstance(kind, type) and _is_model(kind))
    return [field.alias or name for name, field in model.model_fields.items()]


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_fields")
