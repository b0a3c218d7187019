"""Rows and audit as the rules see them: validated, sorted, without the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.measurement.pairing import Pairing, pair
from specdecode.measurement.records import Record


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at.

    Args:
        records: all rows, ordered by key so that the input order cannot matter.
        baseline: name of the arm the others are compared with.
        seed: of every bootstrap.
        audit: the audit document, {"alpha": …, "arms": {arm: report}}, or None.
    """

    records: Sequence[Record]
    baseline: str
    seed: int
    audit: Mapping[str, Any] | None = None

    def of(self, arm: str, sampling: str | None = None) -> list[Record]:
        """Rows of one arm, of one sampling setting unless None."""
        return [r for r in self.records if r.arm == arm and sampling in (None, r.sampling_name)]

    def pairing(
        self, arm: str, *, baseline: str | None = None, sampling: str | None = None
    ) -> Pairing:
        """The arm's rows matched with the baseline's (or another arm's)."""
        return pair(
            (r for r in self.records if sampling in (None, r.sampling_name)),
            arm,
            baseline or self.baseline,
        )
