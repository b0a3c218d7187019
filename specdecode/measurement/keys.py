"""Which row is which: prompt, sampling setting and arm of every row, as one number each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specdecode.errors import EvidenceError
from specdecode.measurement.arrays import (
    ArrowArray,
    BoolArray,
    IntArray,
    taken,
    texts,
)
from specdecode.measurement.coding import Coder, SortedCoder
from specdecode.measurement.consistency import read_settings
from specdecode.measurement.source import Source
from specdecode.measurement.two_readers import Rows as ReadRows

Rows = npt.NDArray[np.integer[Any]]
SHOWN = 5


class Shown(NamedTuple):
    """The first few of some names, and how many there are."""

    first: list[str]
    total: int


@dataclass(frozen=True)
class Keys:
    """Prompt, setting and arm of each row.

    Args:
        source: the rows.
        prompts: all prompts, sorted.
        settings: all names of sampling settings, sorted; also those asked for that have no row.
        arms: the same of arms.
        cell: (prompt · settings + setting) · arms + arm of each row, [n].
        plain_ids: whether every request id is prompt/setting/arm, and no name has a slash.
    """

    source: Source
    prompts: ArrowArray
    settings: list[str]
    arms: list[str]
    cell: Rows
    plain_ids: bool

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.prompts) * len(self.settings) * len(self.arms)

    def arm(self, rows: Rows | slice = slice(None)) -> Rows:
        """Arm of some rows, as a place in `arms`."""
        return self.cell[rows] % max(1, len(self.arms))

    def setting(self, rows: Rows | slice = slice(None)) -> Rows:
        """Sampling setting of some rows, as a place in `settings`."""
        return self.request(rows) % max(1, len(self.settings))

    def request(self, rows: Rows | slice = slice(None)) -> Rows:
        """Prompt · settings + setting of some rows."""
        return self.cell[rows] // max(1, len(self.arms))

    def prompt(self, rows: Rows | slice = slice(None)) -> Rows:
        """Prompt of some rows, as a place in `prompts`."""
        return self.request(rows) // max(1, len(self.settings))

    def request_names(self, requests: Rows) -> Shown:
        """Some requests as "prompt/setting", sorted."""
        prompt, setting = np.divmod(requests, max(1, len(self.settings)))
        return _shown(self._text(self.prompts, prompt), self._text(self.settings, setting))

    def row_names(self, rows: Rows) -> Shown:
        """The different keys of some rows as "prompt/arm/setting", sorted."""
        rows = rows[np.unique(self.cell[rows], return_index=True)[1]]
        return _shown(
            self._text(self.prompts, self.prompt(rows)),
            self._text(self.arms, self.arm(rows)),
            self._text(self.settings, self.setting(rows)),
        )

    @staticmethod
    def _text(names: ArrowArray | list[str], places: Rows) -> ArrowArray:
        return taken(texts(names) if isinstance(names, list) else names, places)

    def request_ids(self, rows: Rows) -> Shown:
        """Request ids of some rows, ordered by prompt, arm and setting."""
        if not len(rows):
            return Shown([], 0)
        by = (self.setting(rows), self.arm(rows), self.prompt(rows))
        order = np.lexsort(by)
        key = np.stack(by, axis=1)[order]
        # Rows of one key are told apart by their ids, so all of them have to be looked at.
        last = key[min(SHOWN, len(key)) - 1]
        chosen = order[: SHOWN + int((key[SHOWN:] == last).all(axis=1).sum())]
        ids = self.source.take("request_id", rows[chosen].tolist())
        ranked = sorted(zip(key[: len(chosen), ::-1].tolist(), map(str, ids), strict=True))
        return Shown([name for _, name in ranked[:SHOWN]], len(rows))

    @cached_property
    def repeated(self) -> BoolArray | None:
        """Rows whose key another row has too, [n]; None when there are none."""
        if self.size <= 8 * len(self.cell) + 1_000_000:
            seen = np.zeros(self.size, dtype=np.bool_)
            seen[self.cell] = True
            if int(seen.sum()) == len(self.cell):
                return None
            found = np.bincount(self.cell, minlength=self.size)[self.cell] > 1
        else:
            _, inverse, count = np.unique(self.cell, return_inverse=True, return_counts=True)
            found = count[inverse] > 1
        return found if found.any() else None


def read_keys(rows: ReadRows, arms: Sequence[str], settings: Sequence[str]) -> Keys:
    """Which row is which.

    Args:
        rows: as they were read.
        arms: arms that have a place whether or not they have rows.
        settings: the same for sampling settings.

    Raises:
        EvidenceError: rows are missing, which must not go unseen.
    """
    prompt_of, arm_of, text_of, name_of = SortedCoder(), Coder(arms), Coder(), Coder(settings)
    names: list[int] = []  # of each sampling text, the number of its name
    places, arm_codes, setting_codes, plain = [], [], [], True
    for first, plain_ids, batch in rows.extracts():
        places.append(slice(first, first + batch.num_rows))
        prompt_of.add(batch.column("prompt_id"))
        arm_codes.append(_small(arm_of.codes(batch.column("arm"))))
        written = text_of.codes(batch.column("sampling"))
        fresh = [read_settings(text).name for text in text_of.values[len(names) :]]
        names += name_of.codes(texts(fresh)).tolist()
        setting_codes.append(_small(np.array(names, dtype=np.int64)[written]))
        plain &= plain_ids
    found = sum(len(codes) for codes in arm_codes)
    if found != rows.source.rows:
        raise EvidenceError(f"{found} rows were kept where {rows.source.rows} were announced")
    prompts, prompt_codes = prompt_of.finish()
    sorted_arms, arm_place = arm_of.sorted()
    sorted_settings, setting_place = name_of.sorted()
    size = len(prompts) * len(sorted_settings) * len(sorted_arms)
    kind: type[np.integer[Any]] = np.int32 if size < 2**31 else np.int64
    cell: Rows = np.empty(rows.source.rows, kind)
    for here, prompt, arm, setting in zip(
        places, prompt_codes, arm_codes, setting_codes, strict=True
    ):
        request = prompt.astype(np.int64) * len(sorted_settings) + setting_place[setting]
        cell[here] = request * len(sorted_arms) + arm_place[arm]
    plain = plain and not any("/" in name for name in (*sorted_arms, *sorted_settings))
    return Keys(rows.source, prompts, sorted_settings, sorted_arms, cell, plain)


def repeated_ids(keys: Keys) -> Shown:
    """Request ids that several rows have, sorted.

    Where every id is its row's key, only repeated keys can repeat one. Else ids are compared by a
    short hash first, and those that meet in it as they are.
    """
    if keys.plain_ids and keys.repeated is None:
        return Shown([], 0)
    short = np.empty(len(keys.cell), dtype=np.uint64)
    start = 0
    for batch in keys.source.batches(["request_id"]):
        ids = [str(name).encode() for name in batch.column(0).to_pylist()]
        hashes = b"".join(hashlib.blake2b(name, digest_size=8).digest() for name in ids)
        short[start : start + len(ids)] = np.frombuffer(hashes, np.uint64)
        start += len(ids)
    order = np.argsort(short, kind="stable")
    same = np.flatnonzero(short[order][1:] == short[order][:-1])
    rows = order[np.union1d(same, same + 1)]
    ids_of_rows = [str(name) for name in keys.source.take("request_id", rows.tolist())]
    found: Any = pc.value_counts(texts(ids_of_rows))
    return _shown(found.field("values").filter(pc.greater(found.field("counts"), pa.scalar(1))))


def _shown(*parts: ArrowArray) -> Shown:
    names = pc.binary_join_element_wise(*parts, "/") if len(parts) > 1 else parts[0]
    first = pc.select_k_unstable(names, k=SHOWN, sort_keys=[("", "ascending")])
    return Shown(names.take(first).to_pylist(), len(names))


def _small(codes: IntArray) -> Rows:
    return codes.astype(np.int16 if codes.max(initial=0) < 2**15 else np.int32)
