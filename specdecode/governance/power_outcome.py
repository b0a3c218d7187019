"""What simulated runs of a stage came to, and how soon.

Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934), for the intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.errors import ConfigError
from specdecode.governance.verdict import Status
from specdecode.statistics.binomial import proportion_interval

LEVEL = 0.95
"""Level of the intervals of the chances."""

DECIDED = frozenset({Status.GO, Status.NO_GO})
"""Answers after which nothing more is asked; the others come at the end of the data."""

SHARES = {"median_n": 0.5, "n_80": 0.8}
"""Shares of runs, by name of the n by which so many were decided."""


@dataclass(frozen=True)
class Chance:
    """How often one status came.

    Attributes:
        count: runs that ended so.
        rate: their share.
        low: lower end of the Clopper-Pearson interval of the chance.
        high: its upper end.
    """

    count: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, count: int, runs: int) -> Chance:
        """The chance of what came `count` times.

        Raises:
            ConfigError: there were no runs.
        """
        interval = proportion_interval(count, runs, level=LEVEL)
        if interval is None:
            raise ConfigError(f"runs must be at least 1, not {runs}")
        return cls(count, interval.estimate, interval.low, interval.high)

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe document."""
        return {"count": self.count, "rate": self.rate, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Ended:
    """How one simulated run of a stage ended.

    Attributes:
        status: its answer.
        n: units it used until then.
        held: what kept it from GO: rules or metrics, with their stratum.
        silent: whether it was a watch that raised no alarm for as long as it was simulated. That is
            a GO, but nothing decided it.
    """

    status: Status
    n: int
    held: tuple[str, ...] = ()
    silent: bool = False

    @property
    def decided(self) -> bool:
        """Whether it ended because its answer was found, and not for want of more units."""
        return self.status in DECIDED and not self.silent


@dataclass(frozen=True)
class Simulation:
    """What simulated runs of one stage came to.

    Attributes:
        stage: name of the stage.
        runs: how many.
        seed: what all their chance came from.
        expected_n: mean number of units a run used.
        chances: by status, the four of a verdict.
        held_by: how often each rule or metric kept a run from GO, most often first.
        unit: what n counts.
        most: units a run may use; None for a stage that looks once.
        ends: of the runs, in their order; empty where they were not kept.
    """

    stage: str
    runs: int
    seed: int
    expected_n: float
    chances: dict[Status, Chance]
    held_by: dict[str, int]
    unit: str = "prompt"
    most: int | None = None
    ends: tuple[Ended, ...] = ()

    @classmethod
    def of(
        cls, stage: str, unit: str, seed: int, ends: Sequence[Ended], *, most: int | None = None
    ) -> Simulation:
        """The sum of runs.

        Raises:
            ConfigError: there are none.
        """
        held = Counter(name for end in ends for name in end.held)
        return cls(
            stage=stage,
            runs=len(ends),
            seed=seed,
            chances=chances(end.status for end in ends),
            expected_n=sum(end.n for end in ends) / len(ends),
            held_by=dict(held.most_common()),
            unit=unit,
            most=most,
            ends=tuple(ends),
        )

    def decided_at(self, status: Status | None = None) -> list[int]:
        """Numbers of units after which runs were decided, rising; of one answer or of both."""
        return sorted(end.n for end in self.ends if end.decided and status in (None, end.status))

    def n_for(self, share: float) -> int | None:
        """Units by which this share of all runs was decided; None if fewer ever were.

        Args:
            share: above 0, at most 1.
        """
        found = self.decided_at()
        place = math.ceil(share * self.runs - 1e-9) - 1
        return found[place] if place < len(found) else None

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe document."""
        return {
            "stage": self.stage,
            "unit": self.unit,
            "runs": self.runs,
            "seed": self.seed,
            "level": LEVEL,
            "n_max": self.most,
            "expected_n": self.expected_n,
            **{name: self.n_for(share) for name, share in SHARES.items()},
            "chances": {status.value: c.to_json() for status, c in self.chances.items()},
            "held_by": self.held_by,
        }


def chances(found: Iterable[Status]) -> dict[Status, Chance]:
    """By status, how often it came.

    Raises:
        ConfigError: nothing came.
    """
    counts = Counter(found)
    return {status: Chance.of(counts[status], counts.total()) for status in Status}
