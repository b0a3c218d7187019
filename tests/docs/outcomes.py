"""How each documented command is run: here, by another test, or not, and why (outcomes.yaml)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run it in a scratch copy, with a tiny model as models/target and models/draft.

    Attributes:
        command: as the page has it.
        instead: parts of the command and what they become; what is not in it is an error.
        more: words at its end that make it quick.
        codes: exit codes that are an answer.
        says: what the output must contain.
    """

    command: str
    instead: dict[str, str] = field(default_factory=dict)
    more: str = ""
    codes: list[int] = field(default_factory=lambda: [0])
    says: str = ""


class _Once(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep)
        assert len(found) == len(node.value), f"a key stands twice, {node.start_mark}"
        return found


_TEXT = Path(__file__).with_name("outcomes.yaml").read_text("utf-8")
_TABLE = yaml.load(_TEXT, _Once)  # noqa: S506 - derived from the safe one

RUN = {entry["command"]: Run(**entry) for entry in _TABLE["run"]}

TESTED: dict[str, str] = {
    command: test for test, commands in _TABLE["tested"].items() for command in commands
}
"""The test that runs it, by command."""

NOT_RUN: dict[str, str] = {
    command: reason for reason, commands in _TABLE["not_run"].items() for command in commands
}
"""Why no test can, by command."""

LISTED: list[str] = [
    *(entry["command"] for entry in _TABLE["run"]),
    *(command for part in ("tested", "not_run") for c in _TABLE[part].values() for command in c),
]
"""Every entry, so that one that stands twice is seen."""
