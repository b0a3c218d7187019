"""How much faster an arm is than another one, from rounds in which both were measured.

**Throughput.** The unit is the round. Within a round both arms sent the same prompts on the same
machine within minutes, so drift of the machine cancels in their ratio; requests of one cell share a
batch and are not independent of each other. With K rounds there are K ratios, which weigh alike,
and the interval is Student's t on their logarithms: exact where those are normal, and wide where
rounds are few, as it should be. The estimate is their geometric mean.

**Time per token.** Every request of one arm has its partner in the other: the same prompt in the
same round at the same load. Pairing takes out that prompts differ; but what a round does (a
neighbour on the machine, where the operating system put the process) is common to all its requests.
So the pairs of a round make one ratio of sums, and from there on it is as above. An interval over
requests would promise too much.

With one round there is no interval: nothing says how much the next round would differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Ratio:
    """One arm over another.

    Attributes:
        by_round: the logarithm of the ratio in every round that has one.
    """

    by_round: Mapping[int, float]

    @property
    def logs(self) -> npt.NDArray[np.float64]:
        """Float64 [K]."""
        return np.array(list(self.by_round.values()), np.float64)

    @property
    def rounds(self) -> int:
        """K."""
        return len(self.by_round)

    @property
    def estimate(self) -> float | None:
        """Geometric mean over rounds; None where there is none."""
        return math.exp(float(self.logs.mean())) if self.rounds else None

    def interval(self, level: float) -> Interval | None:
        """Two-sided; None with fewer than two rounds."""
        # The jackknife of a mean is Student's t.
        found = of_sums(np.stack([self.logs, np.ones(self.rounds)]), level)
        if found is None:
            return None
        low, estimate, high = np.exp([found.low, found.estimate, found.high])
        return replace(found, low=float(low), estimate=float(estimate), high=float(high))

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
    return _ratio({a.round: (_speed(a), _speed(b)) for a, b in _in_rounds(first, second)})


def seconds_per_token(first: Sequence[Cell], second: Sequence[Cell]) -> Ratio:
    """Time per output token after the first, of one arm over that of another; below 1 is faster."""
    pairs = {}
    for a, b in _in_rounds(first, second):
        ours, theirs = _parts(a), _parts(b)
        both = sorted(ours.keys() & theirs.keys())
        pairs[a.round] = (
            _pooled(ours[name] for name in both),
            _pooled(theirs[name] for name in both),
        )
    return _ratio(pairs)


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


def _pooled(parts: Iterable[tuple[float, float]]) -> float:
    found = np.array(list(parts)).reshape(-1, 2).sum(axis=0)
    return float(found[0] / found[1]) if found[1] else math.nan


def _speed(cell: Cell) -> float:
    return (cell.tokens or 0) / cell.seconds if cell.seconds else math.nan


def _ratio(pairs: Mapping[int, tuple[float, float]]) -> Ratio:
    """Rounds without a positive number on both sides have no ratio."""
    return Ratio({r: math.log(a / b) for r, (a, b) in pairs.items() if a > 0 and b > 0})
