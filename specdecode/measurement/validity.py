"""Could every row of a batch be a record? Told by columns, and by `Record` itself where unsure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from specdecode.measurement.arrays import (
    MANY,
    ArrowArray,
    BoolArray,
    coded,
    counts,
    floats,
    lengths,
    nulls,
    offsets,
)
from specdecode.measurement.records import RECORD_SCHEMA, fault_of_row

_TEXT = [f.name for f in RECORD_SCHEMA if f.name not in ("output_text", "sampling",
         "manifest_sha256") and pa.types.is_string(f.type)]  # fmt: skip
_COUNTS = [f.name for f in RECORD_SCHEMA if pa.types.is_int64(f.type) and f.name != "seed"]
_SECONDS = [f.name for f in RECORD_SCHEMA if pa.types.is_float64(f.type)]
_LISTS = [f.name for f in RECORD_SCHEMA if pa.types.is_list(f.type)]
_SHA256 = re.compile("[0-9a-f]{64}")
_YEAR_1, _YEAR_9999 = -62_135_596_800_000_000, 253_402_300_800_000_000  # microseconds


class Validity:
    """Finds the first row that no `Record` can be.

    The columns are only searched for rows that might be wrong; what is wrong with one, and whether
    it is, `Record` says. So there is one definition of a valid row.
    """

    def __init__(self) -> None:
        self._settings: dict[str, bool] = {}

    def fault(self, batch: pa.RecordBatch) -> tuple[int, str] | None:
        """Row number in the batch and what is wrong with it, or None."""
        for row in np.flatnonzero(self._suspects(batch)).tolist():
            problem = fault_of_row(batch.slice(row, 1))
            if problem is not None:
                return row, problem
        return None

    def _suspects(self, batch: pa.RecordBatch) -> BoolArray:
        found = np.zeros(batch.num_rows, dtype=np.bool_)
        for suspects in self._each(batch):
            found |= suspects
        return found

    def _each(self, batch: pa.RecordBatch) -> Iterator[BoolArray]:
        for name in _TEXT:
            yield _where(batch.column(name), _short)
        yield _where(coded(batch.column("manifest_sha256")), _no_sha256)
        yield _where(coded(batch.column("sampling")), self._no_settings)
        for name in _COUNTS:
            array = batch.column(name)
            if array.null_count < len(array):
                yield counts(array, 0) < 0
        for name in _SECONDS:
            values = floats(batch.column(name))
            top = 1.0 if name == "quality" else np.finfo(np.float64).max
            yield ~((values >= 0) & (values <= top)) & ~nulls(batch.column(name))
        for name in _LISTS:
            yield _of_lists(batch.column(name))
        for name in ("prompt", "output"):
            sizes = lengths(batch.column(f"{name}_token_ids"))
            told = counts(batch.column(f"{name}_tokens"))
            yield (sizes >= 0) & (told >= 0) & (sizes != told)
        when = counts(batch.column("started_at").cast(pa.int64()), 0)
        yield (when < _YEAR_1) | (when >= _YEAR_9999)

    def _no_settings(self, texts: ArrowArray) -> BoolArray:
        return np.array([not self._named(text) for text in texts.to_pylist()], dtype=np.bool_)

    def _named(self, text: str) -> bool:
        found = self._settings.get(text)
        if found is None:
            try:
                settings = json.loads(text)
            except (ValueError, RecursionError):
                settings = None
            name = settings.get("name") if isinstance(settings, dict) else None
            found = isinstance(name, str) and bool(name)
            if len(self._settings) < MANY:
                self._settings[text] = found
        return found


def _where(array: ArrowArray, wrong: Callable[[ArrowArray], BoolArray]) -> BoolArray:
    """Rows whose text is wrong; null is not. Texts that came as codes are looked at once."""
    if not pa.types.is_dictionary(array.type):
        return wrong(array) & ~nulls(array)
    of_each = np.append(wrong(array.dictionary), False)
    return np.asarray(of_each[counts(array.indices)], dtype=np.bool_)


def _short(texts: ArrowArray) -> BoolArray:
    return np.asarray(lengths(texts) == 0, dtype=np.bool_)


def _no_sha256(texts: ArrowArray) -> BoolArray:
    return np.array([not _SHA256.fullmatch(text) for text in texts.to_pylist()], dtype=np.bool_)


def _of_lists(array: ArrowArray) -> BoolArray:
    """Lists with an item that is null or negative."""
    items, where = array.values, offsets(array)
    bad = nulls(items)[where[0] : where[-1]] | (counts(items, 0)[where[0] : where[-1]] < 0)
    if not bad.any():
        return np.zeros(len(array), dtype=np.bool_)
    before = np.concatenate([[0], np.cumsum(bad)])
    return np.asarray(np.diff(before[where - where[0]]) > 0, dtype=np.bool_)
