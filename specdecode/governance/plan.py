"""The plan: what will be asked of the evidence, written down before there is any.

docs/plan.md explains every field; plans/default.yaml is a commented example.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import ValidationError

from specdecode.errors import ConfigError
from specdecode.governance.plan_schema import PLAN_SCHEMA, Plan
from specdecode.governance.yaml_file import problems, read_yaml

__all__ = ["PLAN_SCHEMA", "Plan", "canonical_json", "load_plan", "parse_plan", "plan_sha256"]


def canonical_json(plan: Plan) -> str:
    """The whole plan as JSON with sorted keys and no spaces: one text for one meaning."""
    return json.dumps(
        plan.whole.model_dump(mode="json", by_alias=True),
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
    return parse_plan(read_yaml(Path(path), "plan"), path)


def parse_plan(document: object, where: Path | str = "plan") -> Plan:
    """A plan from an already parsed document; errors as `load_plan`."""
    try:
        return Plan.model_validate(document)
    except ValidationError as error:
        raise ConfigError(f"{where}: not a valid plan\n{problems(error)}") from error
