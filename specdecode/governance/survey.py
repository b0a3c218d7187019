"""One look at all rows, in batches: what the checks and the rules need of them, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from specdecode.governance.likeness import Likeness
from specdecode.measurement.arrays import BoolArray, IntArray, bools, nulls
from specdecode.measurement.coding import Coder
from specdecode.measurement.consistency import Settings, read_settings
from specdecode.measurement.grid import Grid, new_columns
from specdecode.measurement.keys import Keys, Rows, read_keys
from specdecode.measurement.two_readers import Rows as ReadRows

_SMALL = 4096


@dataclass
class ArmWork:
    """What the successful rows of one arm did.

    Args:
        rows: how many there are.
        drafted: whether one of them drafted a token.
        sizes: lengths of their histograms, but empty ones.
    """

    rows: int = 0
    drafted: bool = False
    sizes: set[int] = field(default_factory=set)


@dataclass
class Survey:
    """Everything about the rows that the verdict rests on.

    Row numbers are places in the source. Cells are those of prompt × setting × arm of the plan,
    with settings and arms in the order of `grid`; rows of others enter no cell.

    Args:
        keys: which row is which.
        settings: the different sampling parameters.
        asked: which arms were asked with which of them, as (arm, place in `settings`).
        stages: values found.
        profiles: values found, "none" where null.
        manifests: values found.
        failed: whether each row failed, [n].
        contradictory: successful rows whose numbers contradict each other.
        misnamed: rows of the settings "sampled" and "greedy" decoded the other way.
        unlike: requests whose arms saw different prompts, settings or labels.
        present: cells that have a row, [P, S, A].
        lacking: cells with a successful row that lacks a number, [P, S, A].
        scored: requests with a successful row that has a score, [P, S].
        unscored: requests with one that has none, [P, S].
        work: by arm.
        grid: the numbers of the cells.
    """

    keys: Keys
    settings: list[Settings]
    asked: set[tuple[str, int]]
    stages: set[str]
    profiles: set[str]
    manifests: set[str]
    failed: BoolArray
    contradictory: Rows
    misnamed: Rows
    unlike: IntArray
    present: BoolArray
    lacking: BoolArray
    scored: BoolArray
    unscored: BoolArray
    work: dict[str, ArmWork]
    grid: Grid

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.failed)

    @property
    def prompts(self) -> int:
        """How many different prompts."""
        return len(self.keys.prompts)

    def misnamed_as(self, name: str) -> Rows:
        """Rows of one setting that were decoded as its name does not say."""
        own = np.array(self.keys.settings, dtype=object)[self.keys.setting(self.misnamed)] == name
        return np.asarray(self.misnamed[own])

    def rows_of(self, arm: str) -> BoolArray:
        """Whether each row is of an arm, [n]."""
        return np.asarray(self.keys.arm() == self.keys.arms.index(arm), dtype=np.bool_)


def survey(rows: ReadRows, arms: Mapping[str, bool], settings: Sequence[str]) -> Survey:
    """Look at all rows twice: for their keys, then for everything else.

    Args:
        rows: as they were read.
        arms: those of the plan, and whether they draft.
        settings: names of sampling settings of the plan.
    """
    keys = read_keys(rows, list(arms), settings)
    pa.default_memory_pool().release_unused()
    look = _Look(keys, arms, settings)
    for extract in rows.extracts():
        look.at(extract.columns, extract.first)
    return look.finish()


class _Look:
    """The second look, batch by batch."""

    def __init__(self, keys: Keys, arms: Mapping[str, bool], settings: Sequence[str]) -> None:
        self._keys = keys
        self._arms, self._names = sorted(arms), sorted(settings)
        self._shape = (len(keys.prompts), len(self._names), len(self._arms))
        self._setting_place = _places(keys.settings, self._names)
        arm_place = _places(keys.arms, self._arms)
        # Of each setting and arm that rows have: which they are, and their cell of a prompt, or -1.
        self._setting_of, self._arm_of = np.divmod(
            np.arange(len(keys.settings) * len(keys.arms)), max(1, len(keys.arms))
        )
        setting, arm = self._setting_place[self._setting_of], arm_place[self._arm_of]
        self._place_of = np.where((setting < 0) | (arm < 0), -1, setting * len(self._arms) + arm)
        self._drafts = np.array([arms.get(name, False) for name in keys.arms], dtype=np.bool_)
        size = int(np.prod(self._shape))
        self._columns = new_columns(size)
        self._present, self._lacking, self._works = (np.zeros(size, np.bool_) for _ in range(3))
        requests = size // len(self._arms)
        self._scored, self._unscored = np.zeros(requests, np.bool_), np.zeros(requests, np.bool_)
        self._failed = np.zeros(len(keys.cell), np.bool_)
        self._wrong: list[IntArray] = []
        self._misnamed: list[IntArray] = []
        self._likeness = Likeness(keys)
        self._texts = Coder()
        self._settings: list[Settings] = []
        self._asked: set[int] = set()
        self._sets = {name: Coder() for name in ("stage", "profile", "manifest_sha256")}
        self._no_profile = False
        self._work = {name: ArmWork() for name in keys.arms}

    def at(self, batch: pa.RecordBatch, first: int) -> None:
        """Take in the extract of some rows, the first of which has this number."""
        rows = slice(first, first + batch.num_rows)
        each = max(1, len(self._place_of))
        prompt = self._keys.cell[rows] // each
        kind = self._keys.cell[rows] - prompt * each
        arm = self._arm_of[kind]
        which = self._texts.codes(batch.column("sampling"))
        self._settings += [read_settings(t) for t in self._texts.values[len(self._settings) :]]
        asked = which * len(self._keys.arms) + arm
        self._asked.update(_different(asked))
        for name, coder in self._sets.items():
            found = coder.codes(batch.column(name))
            self._no_profile |= name == "profile" and bool((found < 0).any())
        failed = bools(batch.column("failed"))
        self._failed[rows] = failed
        self._wrong.append(np.flatnonzero(bools(batch.column("contradictory"))) + first)
        misnamed = np.array([_misnamed(s) for s in self._settings], np.bool_)[which]
        self._misnamed.append(np.flatnonzero(misnamed) + first)
        request = prompt.astype(np.int64) * len(self._keys.settings) + self._setting_of[kind]
        self._likeness.at(batch, rows, request, failed)
        self._put(batch, prompt, kind, ~failed)
        self._count_work(batch, arm, ~failed)

    def _put(self, batch: pa.RecordBatch, prompt: Rows, kind: Rows, works: BoolArray) -> None:
        """Numbers into their cells."""
        place = self._place_of[kind]
        cell = prompt.astype(np.int64) * (self._shape[1] * self._shape[2]) + place
        self._present[cell[place >= 0]] = True
        inside = (place >= 0) & works
        good = slice(None) if inside.all() else inside  # all of it, which copies nothing
        cell = cell[good]
        self._works[cell] = True
        values = {name: batch.column(name).to_numpy()[good] for name in self._columns}
        for name, column in self._columns.items():
            column.put(cell, values[name])
        lacks = values["output_tokens"] < 0
        lacks |= np.isnan(values["ttft_s"]) | np.isnan(values["e2e_s"])
        counted = (values["steps"] < 0) | (values["accepted"] < 0)
        counted |= nulls(batch.column("drafted"))[good]
        self._lacking[cell[lacks | (counted & self._drafts[self._arm_of[kind][good]])]] = True
        request, unscored = cell // self._shape[2], np.isnan(values["quality"])
        self._scored[request[~unscored]] = True
        self._unscored[request[unscored]] = True

    def _count_work(self, batch: pa.RecordBatch, arm: IntArray, works: BoolArray) -> None:
        drafted = bools(batch.column("drafted"))
        sizes = batch.column("histogram").to_numpy()
        for place in _different(arm):
            own = works & (arm == place)
            work = self._work[self._keys.arms[place]]
            work.rows += int(own.sum())
            work.drafted |= bool(drafted[own].any())
            work.sizes.update(size for size in _different(sizes[own]) if size > 0)

    def finish(self) -> Survey:
        """What was seen."""
        arms = self._keys.arms
        profiles = set(self._sets["profile"].values) | ({"none"} if self._no_profile else set())
        requests = self._shape[:2]
        return Survey(
            keys=self._keys,
            settings=self._settings,
            asked={(arms[code % len(arms)], code // len(arms)) for code in self._asked},
            stages=set(self._sets["stage"].values),
            profiles=profiles,
            manifests=set(self._sets["manifest_sha256"].values),
            failed=self._failed,
            contradictory=_in_order(self._wrong),
            misnamed=_in_order(self._misnamed),
            unlike=self._likeness.unlike(),
            present=self._present.reshape(self._shape),
            lacking=self._lacking.reshape(self._shape),
            scored=self._scored.reshape(requests),
            unscored=self._unscored.reshape(requests),
            work=self._work,
            grid=Grid(
                self._names,
                self._arms,
                self._works.reshape(self._shape),
                self._columns,
                self._likeness.strata(self._setting_place, len(self._names)),
            ),
        )


def _in_order(rows: list[IntArray]) -> IntArray:
    return np.sort(np.concatenate([*rows, np.empty(0, np.int64)]))


def _different(numbers: Rows) -> list[int]:
    """The different ones among small numbers, none under -1."""
    if int(numbers.max(initial=0)) > _SMALL:
        return [int(number) for number in np.unique(numbers)]
    return (np.flatnonzero(np.bincount(numbers + 1)) - 1).tolist()


def _misnamed(settings: Settings) -> bool:
    return settings.name in ("sampled", "greedy") and settings.greedy is not (
        settings.name == "greedy"
    )


def _places(found: list[str], wanted: list[str]) -> IntArray:
    """Place of each name among those wanted; -1 for others."""
    return np.array([wanted.index(n) if n in wanted else -1 for n in found], dtype=np.int64)
