"""Arrow arrays as numpy sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ArrowArray = Any
"""An arrow array. Its stubs know offsets and codes only of kinds that are known beforehand."""

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MANY = 10_000
"""More different texts than this in a column of few: they are no longer remembered."""


def nulls(array: ArrowArray) -> BoolArray:
    """Which values are null, [n]."""
    if not array.null_count:
        return np.zeros(len(array), dtype=np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def bools(array: ArrowArray) -> BoolArray:
    """Truth values [n], null as False."""
    filled = array.fill_null(False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def floats(array: ArrowArray) -> FloatArray:
    """float64 [n], null as NaN."""
    return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def counts(array: ArrowArray, null: int = -1) -> IntArray:
    """int64 [n], null as -1 (no count is negative) or as told."""
    filled = array.fill_null(null) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def offsets(array: ArrowArray) -> IntArray:
    """Where each text or list of an array begins, and where the last ends, int64 [n + 1]."""
    wide = pa.types.is_large_list(array.type) or pa.types.is_large_binary(array.type)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype=np.int64)
    raw: npt.NDArray[Any] = np.frombuffer(buffer, dtype=np.int64 if wide else np.int32)
    return raw[array.offset : array.offset + len(array) + 1].astype(np.int64)


def lengths(array: ArrowArray) -> IntArray:
    """Bytes of each text or items of each list, int64 [n]; null is -1."""
    found = np.diff(offsets(array))
    if array.null_count:
        found[nulls(array)] = -1
    return found


def plain_text(array: ArrowArray) -> ArrowArray:
    """Text as text where it came as codes."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def texts(values: Sequence[str]) -> ArrowArray:
    """Text as an arrow array."""
    return pa.array(values, pa.string())


def taken(array: ArrowArray, places: npt.NDArray[np.integer[Any]]) -> ArrowArray:
    """The values at some places."""
    return array.take(pa.array(places, pa.int64()))


def coded(array: ArrowArray) -> ArrowArray:
    """Text as codes where it came as text."""
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
