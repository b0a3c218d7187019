"""How much faster an arm is than another one, from rounds in which both were measured.

**Throughput.** The unit is the round. Within a round both arms sent the same prompts on the same
machine within minutes, so drift of the machine cancels; requests of one cell share a batch and are
not independent of each other. With K rounds there are K pairs of (tokens, seconds), and the
interval is Student's t of the jackknife over rounds on the logarithm of the ratio
(`specdecode.statistics.jackknife`): exact where log ratios are normal, and wide where rounds are
few, as it should be.

**Time per token.** Every request of one arm has its partner in the other: the same prompt in the
same round at the same load. Pairing takes out that prompts differ; but what a round does (a
neighbour on the machine, where the operating system put the process) is common to all its requests.
So the ratio of sums over pairs is clustered by round, too. An interval over requests would promise
too much.

With one round there is no interval: nothing says how much the next round would differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specdecode.measurement.metrics import METRICS
from specdecode.statistics.interval import Interval
from specdecode.statistics.jackknife import of_sums
from specdecode.workload.sweep.cells import Cell

ONE_ROUND: Final = "one round: no interval"
NO_ROUND: Final = "no round in which both arms answered every request"
NO_DIFFERENCE: Final = "not computable"

Sums = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """One arm over another.

    Attributes:
        sums: float64 [4, K]: numerator and denominator of the first arm, then of the second, one
            column per round.
    """

    sums: Sums

    @property
    def rounds(self) -> int:
        """K."""
        return int(self.sums.shape[1])

    @property
    def estimate(self) -> float | None:
        """Ratio of the sums over all rounds; None where there is none."""
        with np.errstate(all="ignore"):
            a, b, c, d = self.sums.sum(axis=1)
            found = float((a / b) / (c / d)) if self.rounds else math.nan
        return found if math.isfinite(found) else None

    def interval(self, level: float) -> Interval | None:
        """Two-sided; None with fewer than two rounds."""
        return of_sums(self.sums, level) if self.rounds > 1 else None

    def to_json(self, level: float) -> dict[str, Any]:
        """Estimate and interval; `why` says why there is no interval."""
        interval = self.interval(level)
        why = None
        if interval is None:
            why = {0: NO_ROUND, 1: ONE_ROUND}.get(self.rounds, NO_DIFFERENCE)
        return {
            "estimate": self.estimate,
            "low": None if interval is None else interval.low,
            "high": None if interval is None else interval.high,
            "level": level,
            "rounds": self.rounds,
            "why": why,
        }


def throughput(first: Sequence[Cell], second: Sequence[Cell]) -> Ratio:
    """Output tokens per second of one arm over those of another, at one load.

    Args:
        first: cells of an arm, one a round; those that are not whole are left out.
        second: of the arm it is compared with.
    """
    return _ratio(
        [(a.tokens or 0, a.seconds, b.tokens or 0, b.seconds) for a, b in _in_rounds(first, second)]
    )


def seconds_per_token(first: Sequence[Cell], second: Sequence[Cell]) -> Ratio:
    """Time per output token after the first, of one arm over that of another; below 1 is faster."""
    columns = []
    for a, b in _in_rounds(first, second):
        ours, theirs = _parts(a), _parts(b)
        both = sorted(ours.keys() & theirs.keys())
        if both:
            pairs = np.array([(*ours[name], *theirs[name]) for name in both])
            columns.append(tuple(pairs.sum(axis=0)))
    return _ratio(columns)


def _in_rounds(first: Sequence[Cell], second: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    partner = {cell.round: cell for cell in second if cell.whole}
    return [
        (cell, partner[cell.round])
        for cell in sorted(first, key=lambda cell: cell.round)
        if cell.whole and cell.round in partner
    ]


def _parts(cell: Cell) -> Mapping[str, tuple[float, float]]:
    metric = METRICS["tpot_s"]
    return {r.prompt_id: parts for r in cell.records if (parts := metric.parts(r)) is not None}


def _ratio(columns: Sequence[tuple[float, ...]]) -> Ratio:
    return Ratio(np.array(columns, dtype=np.float64).reshape(-1, 4).T)
