"""YAML written by people: strict about keys, and errors that name the field."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from specdecode.errors import ConfigError


def read_yaml(path: Path, what: str) -> object:
    """One YAML document. A date stays the text it is.

    Args:
        path: the file.
        what: what it should be, for the message when it is not there.

    Raises:
        ConfigError: no such file, not readable, not YAML, or a key twice.
    """
    try:
        return yaml.load(path.read_text("utf-8"), Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such {what}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # too long or too deep, too
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error


def problems(error: ValidationError) -> str:
    """One indented line for each field that is wrong."""
    return "\n".join(f"  {_problem(dict(found))}" for found in error.errors())


def _problem(error: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in error["loc"]) or "document"
    if error["type"] == "extra_forbidden":
        return f"{field}: no such field; see docs/plan.md for those there are"
    message = str(error["msg"]).removeprefix("Value error, ")
    value = error["input"]
    shown = f" (found {value!r})" if isinstance(value, str | int | float) else ""
    return f"{field}: {message}{shown}"


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML keeps the last of two equal keys, which would let a threshold hide another."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # the base class refuses it
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
