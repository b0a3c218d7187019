"""What the study does, in numbers. A result is kept as long as the settings it was made under."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ALPHA = 0.01
GAMMA = 3
REPLY = 64
"""Tokens of a reply of the synthetic study."""
STAGES = (1280, 5120)
"""Tokens after which a run that has found nothing yet goes on, at last to the limit."""
DATA = Path("data/audit-report")
REPORTS = Path("reports/audit")
PAGE = Path("docs/audit-teeth.md")
MATTERS = 0.02
"""A fault with a larger mean total variation per token has to be caught within the limit."""


@dataclass(frozen=True)
class Study:
    """How much is simulated.

    Attributes:
        runs: of each fault.
        limit: tokens after which a run has missed its fault.
        alarm_runs: of a correct engine.
        alarm_tokens: read in each of these.
        seed: of prompts and coins.
    """

    runs: int = 20
    limit: int = 20_000
    alarm_runs: int = 400
    alarm_tokens: int = 4_000
    seed: int = 0

    @property
    def stages(self) -> tuple[int, ...]:
        """Tokens read by the end of each stage, rising to the limit."""
        return (*(stage for stage in STAGES if stage < self.limit), self.limit)

    def of_faults(self) -> dict[str, Any]:
        """What a result about a fault depends on, the number of runs aside."""
        return {"limit": self.limit, "seed": self.seed} | _SHARED

    def of_alarms(self) -> dict[str, Any]:
        """What a result about false alarms depends on, the number of runs aside."""
        return {"tokens": self.alarm_tokens, "seed": self.seed} | _SHARED


_SHARED: dict[str, Any] = {
    "alpha": ALPHA,
    "gamma": GAMMA,
    "reply": REPLY,
    "stages": list(STAGES),
}


def described(study: Study) -> dict[str, Any]:
    """The settings as they stand in the report."""
    return asdict(study) | _SHARED
