"""Rows as units: one number each, in an order that later rows cannot change.

What holds at every look holds only if a unit's number is final once it is read. So a unit is

* `request`: each row;
* `prompt`: the rows of a prompt that began at the same moment as its first; repeats that began
  later are not counted, or they would change what was read before;
* `conversation`: the rows of one conversation (the part of `prompt_id` before its last slash, or
  all of it), read once nothing of it has begun for half an hour. Until then it is open and not
  counted; what comes after such a silence is a new conversation.

Units are ordered by the start of their last row. Every unit weighs the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from specdecode.measurement.arrays import FloatArray, IntArray

UnitName = Literal["prompt", "request", "conversation"]

SILENCE_US = 30 * 60 * 1_000_000
"""Microseconds without a new request after which a conversation has ended."""


@dataclass(frozen=True)
class Units:
    """Which unit each row belongs to.

    Args:
        of_row: place of the row's unit in the sequence, -1 where the row is not counted; int [n].
        time: when each unit was complete (start of its last row), int [units], never falling.
    """

    of_row: IntArray
    time: IntArray

    def __len__(self) -> int:
        return len(self.time)

    def means(self, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Mean value of each unit that has one, in order, and these units' places.

        Args:
            values: of the rows, NaN where missing, [n].
        """
        there = (self.of_row >= 0) & ~np.isnan(values)
        sums = np.bincount(self.of_row[there], values[there], len(self))
        counts = np.bincount(self.of_row[there], minlength=len(self))
        filled = np.flatnonzero(counts)
        return sums[filled] / counts[filled], filled.astype(np.int64)


def units_of(
    unit: UnitName, time: IntArray, prompts: npt.NDArray[np.object_], *, now: int
) -> Units:
    """Groups rows of one arm, or pairs of rows.

    Args:
        unit: what is counted.
        time: start of each row, never falling, [n].
        prompts: its `prompt_id`, [n].
        now: start of the newest row of the stage, by which conversations have ended or not.
    """
    if unit == "request" or not len(time):
        return Units(np.arange(len(time), dtype=np.int64), time)
    if unit == "prompt":
        return _prompts(time, prompts)
    return _conversations(time, prompts, now)


def conversation_of(prompt: str) -> str:
    """The conversation a prompt belongs to: "c7" of "c7/3"."""
    return prompt.rpartition("/")[0] or prompt


def _numbered(names: list[str]) -> IntArray:
    """Equal names get equal numbers, in the order of their first rows.

    numpy's own text would take two names for one that differ in a last NUL only.
    """
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)


def _prompts(time: IntArray, prompts: npt.NDArray[np.object_]) -> Units:
    group = _numbered(prompts.tolist())
    first = np.unique(group, return_index=True)[1]
    return Units(np.where(time == time[first][group], group, -1).astype(np.int64), time[first])


def _conversations(time: IntArray, prompts: npt.NDArray[np.object_], now: int) -> Units:
    names = _numbered([conversation_of(prompt) for prompt in prompts.tolist()])
    order = np.argsort(names, kind="stable")  # within a name still in time order
    named, when = names[order], time[order]
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = (named[1:] != named[:-1]) | (np.diff(when) > SILENCE_US)
    group = np.cumsum(starts) - 1
    last = np.append(np.flatnonzero(starts)[1:], len(order)) - 1  # of each group
    ended = when[last] + SILENCE_US < now
    # Ordered by their last row, whose place among all rows tells ties apart.
    ranked = np.argsort(order[last], kind="stable")
    ranked = ranked[ended[ranked]]
    place = np.full(len(last), -1, dtype=np.int64)
    place[ranked] = np.arange(len(ranked))
    of_row = np.empty(len(order), dtype=np.int64)
    of_row[order] = place[group]
    return Units(of_row, when[last][ranked])
