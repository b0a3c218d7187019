"""Programmatic checks of a reply: does the text answer the prompt?

A new check is one class with a `type` field and a `score` method, plus one entry in `Checker`.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import Field

from specdecode.workload.checkers.base import BaseChecker
from specdecode.workload.checkers.program import Runs
from specdecode.workload.checkers.values import JsonSchema, Numeric
from specdecode.workload.checkers.wording import Contains, Exact, NotContains, Regex

Checker = Annotated[
    Exact | Contains | NotContains | Regex | Numeric | JsonSchema | Runs,
    Field(discriminator="type"),
]

MAX_REPLY_CHARACTERS = 20_000
"""Longer replies are cut before checking, which bounds the work of patterns and parsers."""


class Checked(Protocol):
    """Anything that may carry a checker, such as a prompt."""

    @property
    def checker(self) -> Checker | None:
        """The check, or None when the answer cannot be checked by a program."""


def check(item: Checked | Checker | None, text: str) -> float | None:
    """Score a reply.

    Args:
        item: a prompt, a checker, or None.
        text: the visible reply. Whatever it holds, this function does not raise because of it.

    Returns:
        A score in [0, 1]; None when there is no checker, which is not the same as a failed check.
    """
    checker = item if item is None or isinstance(item, BaseChecker) else item.checker
    return None if checker is None else checker.score(text[:MAX_REPLY_CHARACTERS])


__all__ = [
    "MAX_REPLY_CHARACTERS",
    "Checker",
    "Contains",
    "Exact",
    "JsonSchema",
    "NotContains",
    "Numeric",
    "Regex",
    "Runs",
    "check",
]
