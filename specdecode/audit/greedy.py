"""Greedy outputs: exact, tied within the measured tolerance, or wrong.

Every position is judged given the emitted prefix, so one early tie does not condemn what follows:
teacher forcing re-anchors after each divergence by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from specdecode.audit.laws import amplification, row_law, unfiltered
from specdecode.audit.row import AuditRow
from specdecode.audit.store import RowStore
from specdecode.audit.tolerance import Tolerance
from specdecode.statistics.binomial import proportion_interval

Outcome = Literal["exact", "tie", "failure"]
_LISTED = 50
# A row that goes wrong is wrong all along; so many of its deviations are kept, and all counted.
_KEPT = 64


@dataclass(frozen=True)
class Deviation:
    """A position at which the emitted token is not the reference's best.

    Attributes:
        gap: best logit minus the emitted token's, after penalties, in raw logit units.
    """

    label: str
    position: int
    token: int
    best: int
    gap: float
    outcome: Outcome

    def to_json(self) -> dict[str, Any]:
        """JSON-safe; an infinite gap (probability 0) becomes null."""
        return {
            "row": self.label,
            "position": self.position,
            "token": self.token,
            "best": self.best,
            "gap": self.gap if self.gap < float("inf") else None,
            "outcome": self.outcome,
        }


@dataclass
class GreedyTally:
    """Counts over the greedy rows of one arm."""

    exact: int = 0
    ties: int = 0
    failures: int = 0
    rows: int = 0
    deviations: dict[str, dict[int, Deviation]] = field(default_factory=dict)
    overfull: set[str] = field(default_factory=set)
    first_gaps: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens judged."""
        return self.exact + self.ties + self.failures

    def add(self, row: AuditRow, found: Sequence[Deviation]) -> None:
        """Counts one judged row."""
        ties = sum(deviation.outcome == "tie" for deviation in found)
        self.rows += 1
        self.ties += ties
        self.failures += len(found) - ties
        self.exact += len(row.output) - len(found)
        if found:
            self.deviations[row.label] = {one.position: one for one in found[:_KEPT]}
            self.first_gaps.append(found[0].gap / amplification(row.params))
        if len(found) > _KEPT:
            self.overfull.add(row.label)

    def divergences(self, tolerance: Tolerance, control: GreedyTally | None) -> dict[str, int]:
        """Outputs by their first divergence from the reference, the only one that is no echo.

        Args:
            tolerance: measured.
            control: of plain decoding, if there is one.

        Returns:
            Counts of outputs: none; tie (the gap was seen between two readings of one prefix);
            numerical (within the margin, or no larger than where plain decoding first diverges);
            real (any other).
        """
        plain = max(control.first_gaps, default=0.0) if control is not None else 0.0
        numerical = max(tolerance.gap, plain)
        ties = sum(gap <= tolerance.measured for gap in self.first_gaps)
        real = sum(gap > numerical for gap in self.first_gaps)
        diverged = len(self.first_gaps)
        return {
            "none": self.rows - diverged,
            "tie": ties,
            "numerical": diverged - ties - real,
            "real": real,
        }

    def listed_failures(self) -> list[dict[str, Any]]:
        """The first failures, in order."""
        failures = [
            deviation.to_json()
            for row in self.deviations.values()
            for deviation in row.values()
            if deviation.outcome == "failure"
        ]
        return failures[:_LISTED]

    def summary(self) -> dict[str, Any]:
        """Counts and rates with 95 % intervals (which take tokens as independent)."""
        tie_rate = proportion_interval(self.ties, self.tokens)
        return {
            "rows": self.rows,
            "tokens": self.tokens,
            "exact": self.exact,
            "ties": self.ties,
            "failures": self.failures,
            "tie_rate": None if tie_rate is None else tie_rate.to_json(),
        }


def judge_greedy(logits: Tensor, row: AuditRow, start: int, tolerance: float) -> list[Deviation]:
    """The deviations among some consecutive positions of a greedy row.

    Args:
        logits: float [R, V], raw target logits of positions start..start+R-1.
        row: the row they belong to.
        start: first position.
        tolerance: largest gap of raw logits that is a tie.
    """
    plain = unfiltered(row.params, temperature=1.0)
    # log p at temperature 1 is the penalised logit up to one constant per row, which a gap cancels.
    scores = row_law(logits.double(), row, start, plain).log()
    tokens = torch.tensor(row.output[start : start + len(logits)], device=scores.device)
    best = scores.argmax(-1)
    gaps = scores.amax(-1) - scores.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    allowed = tolerance * amplification(row.params)
    return [
        Deviation(
            label=row.label,
            position=start + offset,
            token=int(tokens[offset]),
            best=int(best[offset]),
            gap=float(gaps[offset]),
            outcome="tie" if float(gaps[offset]) <= allowed else "failure",
        )
        for offset in (tokens != best).nonzero().flatten().tolist()
    ]


def against_baseline(
    rows: Iterable[AuditRow],
    tally: GreedyTally,
    baseline: RowStore,
    baseline_tally: GreedyTally,
) -> dict[str, Any] | None:
    """Compares greedy outputs token by token with plain decoding of the same prompts.

    Returns:
        Counts of pairs: identical; diverged_tie (at the first difference both tokens are exact or
        tied under the reference); diverged_failure (one of them is wrong); ends_differ (one output
        is the beginning of the other although both had the same limit); and the first positions of
        divergence. None when no prompt is in both arms.
    """
    counts = {"pairs": 0, "identical": 0, "diverged_tie": 0, "diverged_failure": 0}
    different_ends = 0
    ends: list[str] = []
    first: list[dict[str, Any]] = []
    for row in rows:
        other = baseline.same_request(row) if row.params.is_greedy else None
        if other is None:
            continue
        counts["pairs"] += 1
        if row.output == other.output:
            counts["identical"] += 1
            continue
        shorter = min(len(row.output), len(other.output))
        position = next((t for t in range(shorter) if row.output[t] != other.output[t]), None)
        if position is None:
            different_ends += 1
            if len(ends) < _LISTED:
                ends.append(row.label)
            continue
        seen = [_at(tally, row, position), _at(baseline_tally, other, position)]
        wrong = any(deviation is not None and deviation.outcome == "failure" for deviation in seen)
        # Where not every deviation of a row was kept, one that is not found may be a failure.
        wrong = wrong or row.label in tally.overfull or other.label in baseline_tally.overfull
        kind = "diverged_failure" if wrong else "diverged_tie"
        counts[kind] += 1
        gap = max((deviation.gap for deviation in seen if deviation is not None), default=0.0)
        if len(first) < _LISTED:
            first.append(
                {
                    "row": row.label,
                    "position": position,
                    "gap": gap if gap < float("inf") else None,
                    "kind": kind,
                }
            )
    if counts["pairs"] == 0:
        return None
    return {
        **counts,
        "ends_differ": different_ends,
        "ends_differ_rows": ends,
        "first_divergences": first,
    }


def _at(tally: GreedyTally, row: AuditRow, position: int) -> Deviation | None:
    return tally.deviations.get(row.label, {}).get(position)
