"""Rows and audit as the rules see them: surveyed, in no order, without the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specdecode.governance.survey import Survey
from specdecode.measurement.grid import Pairs, Requests
from specdecode.measurement.keys import Shown


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at.

    Args:
        survey: of all rows, which are unique by prompt, setting and arm.
        baseline: name of the arm the others are compared with.
        seed: of whatever an interval draws.
        audit: the audit document, {"alpha": …, "arms": {arm: report}}, or None.
    """

    survey: Survey
    baseline: str
    seed: int
    audit: Mapping[str, Any] | None = None

    def requests(self, arm: str, sampling: str | None = None) -> Requests:
        """Successful requests of one arm, of one sampling setting unless None."""
        return self.survey.grid.requests(arm, sampling)

    def pairs(self, arm: str, *, baseline: str | None = None, sampling: str | None = None) -> Pairs:
        """The arm's requests matched with the baseline's (or another arm's)."""
        return self.survey.grid.pairs(arm, baseline or self.baseline, sampling)

    def failures(self, arm: str) -> tuple[int, Shown]:
        """How many requests an arm had, and the ids of those that failed."""
        own = self.survey.rows_of(arm)
        failed = np.flatnonzero(own & self.survey.failed)
        return int(own.sum()), self.survey.keys.request_ids(failed)

    def sampled(self, arm: str) -> bool:
        """Whether a request of the arm was sampled: by the setting's name or its temperature."""
        own = [self.survey.settings[place] for of, place in self.survey.asked if of == arm]
        return any(settings.name == "sampled" or not settings.greedy for settings in own)
