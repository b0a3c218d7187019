"""The plan: what will be asked of the evidence, written down before there is any.

docs/plan.md explains every field; plans/default.yaml is a commented example.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specdecode.errors import ConfigError
from specdecode.governance.rules import AnyRule
from specdecode.governance.rules.base import Rule, Text
from specdecode.governance.rules.efficiency_gain import EfficiencyGain
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.unique_keys import UniqueKeyLoader

PLAN_SCHEMA: Literal["specdecode.plan/1"] = "specdecode.plan/1"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Arm(_Strict):
    """One way of decoding that is measured."""

    name: Text = Field(description="as in the rows")
    role: Literal["baseline", "candidate", "comparator"] = Field(
        description="baseline: what users have now; candidate: what may replace it; comparator: "
        "measured beside them and judged by no primary rule of its own"
    )
    draft: Text | None = Field(description="what proposes tokens; null decodes plainly")
    verification: Literal["token", "block", "greedy-block", "match"] | None = Field(
        description="acceptance rule; null decodes plainly"
    )
    num_speculative_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="γ; null leaves it to the run's parameters, which the manifest pins"
    )

    @model_validator(mode="after")
    def _draft_with_verification(self) -> Self:
        if (self.draft is None) != (self.verification is None):
            raise ValueError("draft and verification go together: set both or neither")
        if self.draft is None and self.num_speculative_tokens is not None:
            raise ValueError("an arm without a draft has no num_speculative_tokens")
        if self.role == "baseline" and self.draft is not None:
            raise ValueError("the baseline decodes plainly: draft and verification must be null")
        return self


class MissingData(_Strict):
    """How much may be missing before the rows are no basis for any decision."""

    max_missing_share: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        description="largest share of requests whose row, or whose needed number, is absent in "
        "some arm; more makes the verdict INVALID"
    )


class Plan(_Strict):
    """A decision to be made, and how. Unknown fields are refused."""

    schema_name: Literal["specdecode.plan/1"] = Field(alias="schema")
    name: Text = Field(description="short name of the plan")
    claim: Text = Field(description="what a GO would mean, in one sentence")
    owner: Text = Field(description="who owns the decision")
    population: Text = Field(description="the traffic the claim is about, and what it leaves out")
    unit: Literal["prompt"] = Field(description="what is resampled; tokens are never independent")
    stage: Text = Field(description="stage the rows must come from")
    arms: list[Arm] = Field(min_length=2, description="exactly these arms must be in the rows")
    sampling: list[Text] = Field(
        min_length=1, description="exactly these sampling settings must be in the rows"
    )
    prompts_expected: dict[Text, Annotated[int, Field(ge=1)]] = Field(
        description="prompts a complete run has at least, by profile; fewer is an early end"
    )
    bootstrap_seed: Annotated[int, Field(ge=0)] = Field(description="seed of every interval")
    missing_data: MissingData
    rules: list[AnyRule] = Field(min_length=1, description="what is asked of the evidence")
    overturned_by: list[Text] = Field(
        min_length=1, description="findings that would overturn the claim even after a GO"
    )
    reopen_when: list[Text] = Field(
        min_length=1, description="what would have to change to ask again after another answer"
    )

    @property
    def baseline(self) -> str:
        """Name of the baseline arm."""
        return next(arm.name for arm in self.arms if arm.role == "baseline")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [arm.name for arm in self.arms]
        roles = [arm.role for arm in self.arms]
        candidates = [arm for arm in self.arms if arm.role == "candidate"]
        _unique("arms", names)
        _unique("sampling", self.sampling)
        _unique("rules", [rule.name for rule in self.rules])
        if roles.count("baseline") != 1 or not candidates:
            raise ValueError("arms: one baseline and at least one candidate are needed")
        for rule in self.rules:
            self._check_rule(rule, names)
        for arm in candidates:
            own = [rule for rule in self.rules if rule.arm == arm.name]
            if not any(rule.role == "primary" for rule in own):
                raise ValueError(f"rules: candidate {arm.name} has no primary rule to pass")
            if arm.draft and not any(
                isinstance(rule, Losslessness) and rule.role != "secondary" for rule in own
            ):
                raise ValueError(
                    f"rules: candidate {arm.name} drafts, so it needs a losslessness rule that is "
                    "primary or guardrail; speed without it means nothing"
                )
            # All other rules leave failed requests out, so without this one they escape judgement.
            if not any(isinstance(rule, ErrorRate) and rule.role != "secondary" for rule in own):
                raise ValueError(
                    f"rules: candidate {arm.name} needs an error_rate rule that is primary or "
                    "guardrail; no other rule sees requests that failed"
                )
        return self

    def _check_rule(self, rule: Rule, arms: list[str]) -> None:
        named = [rule.arm, *([rule.versus] if isinstance(rule, EfficiencyGain) else [])]
        if unknown := [name for name in named if name not in arms]:
            raise ValueError(f"rules: {rule.name}: no arm {unknown[0]}; arms are {arms}")
        sampling = getattr(rule, "sampling", None)
        if sampling is not None and sampling not in self.sampling:
            raise ValueError(f"rules: {rule.name}: no sampling {sampling} in {self.sampling}")
        if rule.arm == self.baseline:
            raise ValueError(f"rules: {rule.name}: the baseline is not judged against itself")


def _unique(field: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{field}: {', '.join(twice)} occurs twice")


def canonical_json(plan: Plan) -> str:
    """The plan as JSON with sorted keys and no spaces: the same text for the same meaning."""
    return json.dumps(
        plan.model_dump(mode="json", by_alias=True),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def plan_sha256(plan: Plan) -> str:
    """SHA-256 of `canonical_json`. Comments and layout of the file do not enter."""
    return hashlib.sha256(canonical_json(plan).encode("utf-8")).hexdigest()


def load_plan(path: Path | str) -> Plan:
    """Read a plan from YAML.

    Raises:
        ConfigError: no such file, not YAML, a key twice, or a field that is missing, unknown or
            out of range. The message names the file, each field and what is allowed.
    """
    path = Path(path)
    try:
        document = yaml.load(path.read_text("utf-8"), Loader=UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such plan") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error
    return parse_plan(document, path)


def parse_plan(document: object, where: Path | str = "plan") -> Plan:
    """A plan from an already parsed document; errors as `load_plan`."""
    try:
        return Plan.model_validate(document)
    except ValidationError as error:
        problems = "\n".join(f"  {_problem(dict(found))}" for found in error.errors())
        raise ConfigError(f"{where}: not a valid plan\n{problems}") from error


def _problem(error: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in error["loc"]) or "plan"
    if error["type"] == "extra_forbidden":
        return f"{field}: no such field; see docs/plan.md for those there are"
    message = str(error["msg"]).removeprefix("Value error, ")
    value = error["input"]
    shown = f" (found {value!r})" if isinstance(value, str | int | float) else ""
    return f"{field}: {message}{shown}"
