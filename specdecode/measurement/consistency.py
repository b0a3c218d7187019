"""Do the numbers of one row contradict each other? Then some of them were not measured."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.measurement.arrays import (
    ArrowArray,
    BoolArray,
    IntArray,
    counts,
    floats,
    lengths,
    offsets,
)
from specdecode.measurement.coding import Coder

_LARGEST = 2**63 - 1
_SAFE = 2**40  # a histogram of smaller counts has sums that int64 holds


@dataclass(frozen=True)
class Settings:
    """What the checks need of one row's sampling parameters.

    Args:
        name: of the setting.
        greedy: whether it asks for greedy decoding; no temperature means the default, 1.
        limited: whether it has `max_tokens`.
        limit: that number; None when it is none.
        alike: all parameters but the seed, which each request has its own of, as one text.
    """

    name: str
    greedy: bool
    limited: bool
    limit: int | None
    alike: str


def read_settings(text: str) -> Settings:
    """Sampling parameters from the JSON of a valid row."""
    found = json.loads(text)
    asked = found.get("max_tokens")
    return Settings(
        name=found["name"],
        greedy=bool(found.get("temperature", 1.0) == 0),
        limited=asked is not None,
        limit=min(max(asked, -1), _LARGEST) if isinstance(asked, int) else None,
        alike=json.dumps({k: v for k, v in found.items() if k != "seed"}, sort_keys=True),
    )


def contradictory(batch: pa.RecordBatch, settings: list[Settings], which: IntArray) -> BoolArray:
    """Rows whose numbers contradict each other, [n].

    Compared are histogram and counts, counts with each other, times with each other, and the end of
    the reply with what was asked.

    Args:
        batch: rows with at least the columns of numbers.
        settings: different sampling parameters.
        which: those of each row, as a place in `settings`, [n].
    """
    steps, accepted = counts(batch.column("steps")), counts(batch.column("accepted"))
    drafted, tokens = counts(batch.column("drafted")), counts(batch.column("output_tokens"))
    ttft, e2e = floats(batch.column("ttft_s")), floats(batch.column("e2e_s"))
    told = floats(batch.column("tpot_s"))

    sizes = lengths(batch.column("acceptance_histogram"))
    total, weighted = _sums(batch.column("acceptance_histogram"))
    wrong = (sizes > 0) & (steps >= 0) & (total != steps)
    wrong |= (sizes >= 0) & (accepted >= 0) & (weighted != accepted)
    wrong |= (drafted >= 0) & (accepted > drafted)
    wrong |= ttft > e2e  # False where one is missing, NaN
    wrong |= _ended_otherwise(batch.column("finish_reason"), tokens, settings, which)

    more = np.where(tokens > 1, tokens - 1, 1)
    tpot = np.where(tokens > 1, (e2e - ttft) / more, np.nan)
    allowed = np.maximum(1e-3 * np.maximum(np.abs(told), np.abs(tpot)), 1e-6)
    return np.asarray(wrong | (np.abs(told - tpot) > allowed), dtype=np.bool_)


def _ended_otherwise(
    reasons: ArrowArray, tokens: IntArray, settings: list[Settings], which: IntArray
) -> BoolArray:
    """The reply is longer than asked for, or was cut by its length and is shorter.

    A reply cut by the end of the context is short as well, but prompts that leave no room for the
    whole reply are refused when they are compiled.
    """
    limited = np.array([s.limited for s in settings], dtype=np.bool_)[which]
    unusable = np.array([s.limit is None for s in settings], dtype=np.bool_)[which]
    limit = np.array([s.limit or 0 for s in settings], dtype=np.int64)[which]
    cut = Coder(["length"]).codes(reasons) == 0
    off = np.where(cut, tokens != limit, tokens > limit)
    return np.asarray(limited & (tokens >= 0) & (unusable | off), dtype=np.bool_)


def _sums(histograms: ArrowArray) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Of each histogram the sum of counts, and of counts times place; [n] each."""
    where = offsets(histograms)
    items = counts(histograms.values, 0)[where[0] : where[-1]]
    where = where - where[0]
    place = np.arange(len(items))
    if items.max(initial=0) >= _SAFE:  # sums that might not fit are taken of Python's integers
        items, place = items.astype(object), place.astype(object)
    # Of places in the whole column; that wraps around, and the difference wraps back.
    total, weighted = _sums_between(items, where), _sums_between(items * place, where)
    return total, weighted - where[:-1] * total


def _sums_between(items: npt.NDArray[Any], where: IntArray) -> npt.NDArray[Any]:
    """Sum of the items from each place to the next, [n]."""
    some = where[1:] > where[:-1]
    sums = np.zeros(len(some), dtype=items.dtype)
    if some.any():  # `reduceat` takes an item where there is none, and begins at none beyond
        sums[some] = np.add.reduceat(items, where[:-1][some])
    return sums
