"""Rows laid out by prompt, sampling setting and arm, so that pairing them is a matter of indexing.

Only numbers that rules look at are held, each in the smallest type that keeps it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.measurement.arrays import BoolArray, FloatArray
from specdecode.measurement.metrics import Metric

COUNTS = ("output_tokens", "steps", "accepted", "target_tokens")
SECONDS = ("ttft_s", "e2e_s")
SCORES = ("quality",)


class Column:
    """One number of every cell; missing until put."""

    def __init__(self, size: int, kinds: Iterable[Any], missing: float) -> None:
        self._kinds = [np.dtype(kind) for kind in kinds]
        self._missing = missing
        self._values: npt.NDArray[Any] = np.full(size, missing, self._kinds.pop(0))

    def put(self, cells: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Set some cells; missing values are NaN (of seconds and scores) or -1 (of counts)."""
        while self._kinds and not self._holds(values):
            self._values = self._values.astype(self._kinds.pop(0))
        self._values[cells] = values

    def _holds(self, values: npt.NDArray[Any]) -> bool:
        """Whether these values stay what they are in the type of the column."""
        kind = self._values.dtype
        return np.can_cast(values.dtype, kind) or np.array_equal(
            values.astype(kind), values, equal_nan=self._missing != self._missing
        )

    def stored(self, cells: Any) -> npt.NDArray[Any]:
        """Some cells as they are held."""
        found: npt.NDArray[Any] = self._values[cells]
        return found

    def at(self, shape: tuple[int, ...], place: Any) -> FloatArray:
        """Part of the column, seen in a shape, as float64; missing is NaN."""
        found = self._values.reshape(shape)[place]
        floats: FloatArray = found.astype(np.float64, copy=False)
        if self._missing == self._missing and (gone := found == self._missing).any():
            floats[gone] = np.nan  # of a copy, for counts are held as whole numbers
        return floats


def new_columns(size: int) -> dict[str, Column]:
    """An empty column for each number a rule may look at."""
    whole = dict.fromkeys(COUNTS, (("i2", "i4", "i8"), -1.0))
    real = dict.fromkeys(SECONDS, (("f8",), np.nan)) | dict.fromkeys(SCORES, (("f4", "f8"), np.nan))
    return {name: Column(size, kinds, missing) for name, (kinds, missing) in (whole | real).items()}


@dataclass(frozen=True)
class Sample:
    """A metric of some requests, ordered by prompt.

    Args:
        prompts: prompt of each, as a number, [n].
        parts: numerator and denominator of each; of pairs, the arm's and then the baseline's.
    """

    prompts: npt.NDArray[np.int32]
    parts: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Grid:
    """Every cell of prompt × setting × arm.

    Args:
        settings: names along the second axis, sorted.
        arms: names along the third.
        works: whether a cell has a row that did not fail, [P, S, A].
        columns: numbers of the cells; missing where the request failed.
        strata: by name of a stratum, each request's value as a number [P, S], -1 where it has
            none, and the values.
    """

    settings: list[str]
    arms: list[str]
    works: BoolArray
    columns: dict[str, Column]
    strata: dict[str, tuple[npt.NDArray[np.integer[Any]], list[str]]]

    def requests(self, arm: str, setting: str | None = None) -> Requests:
        """Requests of one arm, of one sampling setting unless None."""
        return Requests(self, self._place(arm), self._settings(setting))

    def pairs(self, arm: str, baseline: str, setting: str | None = None) -> Pairs:
        """The same of two arms, where both worked."""
        arms, settings = (self._place(arm), self._place(baseline)), self._settings(setting)
        works = self.works[:, settings]
        return Pairs(self, arms, settings, works[:, :, arms[0]] & works[:, :, arms[1]])

    def _place(self, arm: str) -> int:
        return self.arms.index(arm)

    def _settings(self, setting: str | None) -> slice:
        if setting is None:
            return slice(None)
        place = self.settings.index(setting)
        return slice(place, place + 1)


class _Numbers:
    """The columns of one arm as a metric's formula sees them, [P, S]."""

    def __init__(self, grid: Grid, arm: int, settings: slice) -> None:
        self._grid, self._place = grid, (slice(None), settings, arm)

    def __getattr__(self, name: str) -> FloatArray:
        return self._grid.columns[name].at(self._grid.works.shape, self._place)


@dataclass(frozen=True)
class Requests:
    """Requests of one arm."""

    grid: Grid
    arm: int
    settings: slice

    def sample(self, metric: Metric) -> Sample:
        """The metric of the requests that have it."""
        top, bottom, there = metric.columns(_Numbers(self.grid, self.arm, self.settings))
        found = Sample(_prompts(there), (top[there], bottom[there]))
        return _by_value(found) if there.shape[1] > 2 else found


class Pairs:
    """Requests of two arms matched by prompt and setting.

    Args:
        grid: all cells.
        arms: the arm and the one it is compared with.
        settings: those looked at.
        chosen: which requests are paired, [P, S].
    """

    def __init__(
        self, grid: Grid, arms: tuple[int, int], settings: slice, chosen: BoolArray
    ) -> None:
        self._grid, self._arms, self._settings, self._chosen = grid, arms, settings, chosen
        self._whole: Pairs | None = None
        self._read: tuple[str, BoolArray, Sample] | None = None

    @property
    def prompts(self) -> int:
        """Different prompts among the pairs."""
        some = np.zeros(len(self._chosen), np.bool_)
        for column in self._chosen.T:  # few and long: much faster than `any` of each row
            some |= column
        return int(np.count_nonzero(some))

    def within(self, by: str, value: str) -> Pairs:
        """Only the pairs of one stratum."""
        if by == "sampling":
            named = np.array(self._grid.settings, dtype=object)[self._settings]
            inside = (named == value)[None, :]
        else:
            codes, values = self._grid.strata[by]
            number = values.index(value) if value in values else -2
            inside = codes[:, self._settings] == number
        part = Pairs(self._grid, self._arms, self._settings, self._chosen & inside)
        part._whole = self._whole or self
        return part

    def sample(self, metric: Metric, *, ordered_by_value: bool = True) -> Sample:
        """The metric of the pairs where both have it.

        Args:
            metric: any.
            ordered_by_value: order a prompt's pairs by their numbers, else by setting.
        """
        if self._whole is None:
            found = self._numbers(metric)[1]
        else:
            there, found = self._whole._numbers(metric)
            chosen = np.flatnonzero(_kept(self._chosen, there))
            found = Sample(found.prompts[chosen], tuple(part[chosen] for part in found.parts))
        return _by_value(found) if ordered_by_value and self._chosen.shape[1] > 2 else found

    def _numbers(self, metric: Metric) -> tuple[BoolArray, Sample]:
        """Where both have the metric, and its parts there; kept, for all strata look at them."""
        if self._read is None or self._read[0] != metric.name:
            there, parts = self._chosen, []
            for place in self._arms:
                numbers = _Numbers(self._grid, place, self._settings)
                top, bottom, has = metric.columns(numbers)
                there = there & has
                parts += [top, bottom]
            del top, bottom
            for place in range(len(parts)):  # one by one: whole columns are large
                parts[place] = _kept(parts[place], there)
            self._read = metric.name, there, Sample(_prompts(there), tuple(parts))
        return self._read[1:]


def _kept(values: npt.NDArray[Any], there: BoolArray) -> npt.NDArray[Any]:
    """The values of requests that are there, [n]; most often all are."""
    return np.ascontiguousarray(values).ravel() if there.all() else values[there]


def _prompts(there: BoolArray) -> npt.NDArray[np.int32]:
    """Prompt of each request that is there."""
    every = np.repeat(np.arange(len(there), dtype=np.int32), there.shape[1])
    return _kept(every.reshape(there.shape), there)


def _by_value(sample: Sample) -> Sample:
    """Sums of up to two numbers do not depend on their order, of more they do."""
    by: list[Any] = [*reversed(sample.parts), sample.prompts]
    order = np.lexsort(by)
    return Sample(sample.prompts[order], tuple(part[order] for part in sample.parts))
