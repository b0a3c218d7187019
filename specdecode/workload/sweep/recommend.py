"""Which draft length to use at which load, without being fooled by the luckiest of many arms.

At every measured load, among the drafting arms of one rule and the plain one:

1. An arm is a candidate only if the lower end of its throughput ratio over plain decoding lies
   above 1. The level is Bonferroni's: with m drafting arms of one baseline each gets the level
   1 - (1 - level)/m, so that, whatever the arms, one that is no faster than plain decoding is
   recommended at that load with probability (1 - level)/2 at most, 2.5 % at a level of 95 %.
   No candidate: plain decoding.
2. The shortest candidate is taken first. A longer one takes its place only if the lower end of its
   ratio over the one in place, at the same level, lies above 1. So a tie, and whatever cannot be
   told apart, goes to the shorter length.

A server has one verification rule at all loads. The first rule in the order of the arms is kept
unless another one, with its own recommended lengths, is faster: lower end, at the same level, of
the ratio over all measured loads together, each load weighing alike.

Loads between two measured ones get the shorter of the two lengths, and loads above the largest
measured one get plain decoding: nothing was measured there, and drafting costs most where the load
is high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.workload.sweep.arms import Arm
from specdecode.workload.sweep.cells import Cell
from specdecode.workload.sweep.paired import Ratio, throughput

Grid = Mapping[tuple[str, int], Sequence[Cell]]
"""Cells of an arm at a load, by (name of the arm, concurrency)."""


@dataclass(frozen=True)
class Recommendation:
    """What to set, for the arms of one baseline.

    Attributes:
        baseline: name of the plain arm.
        rule: verification rule; None where the arms name none.
        chosen: arm at every measured load.
        tested: drafting arms that the level of each comparison was divided by.
        level: before the division.
    """

    baseline: str
    rule: str | None
    chosen: Mapping[int, Arm]
    tested: int
    level: float

    @property
    def lengths(self) -> dict[int, int]:
        """Draft length by measured load."""
        return {load: arm.draft_length for load, arm in self.chosen.items()}

    def schedule(self, max_batch: int) -> list[list[int]]:
        """[first, last, draft length] from 1 to `max_batch`, without gaps; last is included."""
        return schedule(self.lengths, max_batch)

    def to_json(self, max_batch: int) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "baseline": self.baseline,
            "rule": self.rule,
            "by_measured_load": [
                {"concurrency": load, "arm": arm.name, "num_speculative_tokens": arm.draft_length}
                for load, arm in self.chosen.items()
            ],
            "schedule": self.schedule(max_batch),
            "measured_up_to": max(self.chosen),
            "level": self.level,
            "arms_tested": self.tested,
            "error_at_most": (1 - self.level) / 2,
        }


def recommend(baseline: Arm, arms: Sequence[Arm], grid: Grid, level: float) -> Recommendation:
    """The lengths of the module docstring.

    Args:
        baseline: the plain arm.
        arms: drafting arms that are compared with it, in the order of preference of their rules.
        grid: all cells.
        level: before it is divided by the number of arms.
    """
    loads = sorted({load for name, load in grid if name == baseline.name})
    adjusted = 1 - (1 - level) / len(arms)
    best: Recommendation | None = None
    for rule in dict.fromkeys(arm.rule for arm in arms):
        same = sorted((a for a in arms if a.rule == rule), key=lambda arm: arm.draft_length)
        chosen = {load: _best(baseline, same, load, grid, adjusted) for load in loads}
        found = Recommendation(baseline.name, rule, chosen, len(arms), level)
        if best is None or _is_faster(found.chosen, best.chosen, grid, adjusted):
            best = found
    if best is None:
        raise ValueError(f"no arm is compared with {baseline.name}")
    return best


def schedule(lengths: Mapping[int, int], max_batch: int) -> list[list[int]]:
    """Draft lengths for every number of requests, from those at measured loads.

    Args:
        lengths: by measured load; at least one.
        max_batch: most requests together, at least the largest measured load.

    Returns:
        [first, last, draft length], without gaps from 1 to `max_batch`.
    """
    parts: list[list[int]] = []
    loads = sorted(lengths)
    for before, load in zip([None, *loads], loads, strict=False):
        begins = 1 if before is None else before + 1
        here = lengths[load]
        between = here if before is None else min(here, lengths[before])
        if begins < load:
            parts.append([begins, load - 1, between])
        parts.append([load, load, here])
    if loads[-1] < max_batch:
        parts.append([loads[-1] + 1, max_batch, 0])
    joined = parts[:1]
    for part in parts[1:]:
        if part[2] == joined[-1][2]:
            joined[-1][1] = part[1]
        else:
            joined.append(part)
    return joined


def _best(baseline: Arm, arms: Sequence[Arm], load: int, grid: Grid, level: float) -> Arm:
    chosen = baseline
    for arm in arms:
        rivals = [baseline] if chosen is baseline else [baseline, chosen]
        if all(_beats(arm, rival, load, grid, level) for rival in rivals):
            chosen = arm
    return chosen


def _beats(arm: Arm, rival: Arm, load: int, grid: Grid, level: float) -> bool:
    ratio = throughput(grid.get((arm.name, load), ()), grid.get((rival.name, load), ()))
    interval = ratio.interval(level)
    return interval is not None and interval.low > 1


def _is_faster(
    first: Mapping[int, Arm], second: Mapping[int, Arm], grid: Grid, level: float
) -> bool:
    """Whether one choice by load is faster than another, over all loads together.

    From rounds in which every chosen arm is whole at every load.
    """
    if not first:
        return False
    ours, theirs = (
        [_speeds(grid.get((choice[load].name, load), ())) for load in first]
        for choice in (first, second)
    )
    rounds = set.intersection(*(set(each) for each in (*ours, *theirs)))
    logs = {
        r: sum(math.log(a[r] / b[r]) for a, b in zip(ours, theirs, strict=True)) / len(first)
        for r in sorted(rounds)
    }
    interval = Ratio(logs).interval(level)
    return interval is not None and interval.low > 1


def _speeds(cells: Sequence[Cell]) -> dict[int, float]:
    return {c.round: c.tokens / c.seconds for c in cells if c.whole and c.tokens and c.seconds}
