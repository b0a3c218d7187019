"""Checks on a value inside the reply: numeric, json_schema."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Literal, NoReturn

import jsonschema
from pydantic import Field, field_validator

from specdecode.workload.checkers.base import BaseChecker

# In order: 1,234.5 (grouped) | 12,5 (decimal comma) | 12.5e3 | .5
_NUMBER = re.compile(
    r"(?:(?<![\w)])[-+])?"
    r"(?:(?<![A-Za-z0-9_])"
    r"(?:(?P<grouped>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?)"
    r"|(?<!,)(?P<comma>[0-9]+,[0-9]{1,2})(?![0-9,])"
    r"|(?P<plain>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?))"
    r"|(?<![A-Za-z0-9_.])(?P<bare>\.[0-9]+))"
)
_GROUP_SPACE = re.compile(r"(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")
_MAX_OBJECTS_TRIED = 500


def last_number(text: str) -> float | None:
    """The last number of a text, or None.

    Understands signs, 1,234.5, a decimal comma with one or two digits (12,5), exponents, full-width
    digits, and thin or no-break spaces between groups. A minus directly after a word, digit or
    closing bracket is read as an operator.
    """
    plain = unicodedata.normalize("NFKC", _GROUP_SPACE.sub("", text)).replace("\u2212", "-")
    found = None
    for found in _NUMBER.finditer(plain):  # noqa: B007 - the last match is wanted
        pass
    if found is None:
        return None
    number = found.group()
    if found["grouped"]:
        number = number.replace(",", "")
    return float(number.replace(",", "."))


class Numeric(BaseChecker):
    """The last number of the reply is `value`, within `tolerance` (absolute)."""

    type: Literal["numeric"] = "numeric"
    value: float = Field(allow_inf_nan=False)
    tolerance: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)

    def score(self, text: str) -> float:
        """1 when the last number is right, else 0."""
        number = last_number(text)
        # An allowance for rounding: 0.1 + 0.2 must pass as 0.3 at tolerance 0.
        slack = self.tolerance + 1e-12 * abs(self.value)
        return float(number is not None and abs(number - self.value) <= slack)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def first_json_object(text: str) -> dict[str, Any] | None:
    """The first complete JSON object in a text, with or without prose and fences around it."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    start = -1
    for _ in range(_MAX_OBJECTS_TRIED):
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # ValueError covers syntax and absurdly long integers
            continue
        if isinstance(value, dict):
            return value
    return None


def _refuse_references(node: object) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("$ref", "$dynamicRef"):
                raise ValueError(f"{key} is not supported here; write the schema out in place")
            _refuse_references(value)
    elif isinstance(node, list):
        for value in node:
            _refuse_references(value)


class JsonSchema(BaseChecker):
    """The first JSON object of the reply satisfies the schema (draft 2020-12, no references)."""

    type: Literal["json_schema"] = "json_schema"
    # The field is called what users expect in the file; pydantic's own `schema` is deprecated.
    schema_: dict[str, Any] = Field(alias="schema", min_length=1)

    @field_validator("schema_")
    @classmethod
    def _valid_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        _refuse_references(schema)
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            where = "/".join(str(part) for part in error.absolute_path) or "top level"
            raise ValueError(f"not a valid JSON schema, at {where}: {error.message}") from error
        return schema

    def score(self, text: str) -> float:
        """1 when an object is found and valid, else 0."""
        value = first_json_object(text)
        if value is None:
            return 0.0
        try:
            return float(jsonschema.Draft202012Validator(self.schema_).is_valid(value))
        except (RecursionError, ArithmeticError, ValueError):
            # Deep nesting, or a number that multipleOf cannot divide: the text's fault.
            return 0.0
