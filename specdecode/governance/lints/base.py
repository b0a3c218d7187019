"""What a lint is: a name, how bad it is, what to do, and a function that looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from specdecode.governance.plan_schema import Plan

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a plan.

    Attributes:
        code: which lint; stable, for scripts.
        severity: an error makes the plan unfit to be sealed, a warning does not.
        message: what was found, and where.
        remedy: what to do about it.
    """

    code: str
    severity: Severity
    message: str
    remedy: str


@dataclass(frozen=True)
class Lint:
    """One question to a plan; `look` yields a message for each answer that is wrong."""

    code: str
    severity: Severity
    look: Callable[[Plan], Iterable[str]]
    remedy: str

    def findings(self, plan: Plan) -> list[Finding]:
        """What is wrong, in the order of the plan."""
        return [Finding(self.code, self.severity, text, self.remedy) for text in self.look(plan)]
