"""The bytes of a row: what its hash is taken of, in one fixed form whatever file it came from.

For each row, in the order of `RECORD_SCHEMA`, all little-endian:

    uint64            bit i is set where column i is null
    8 bytes each      whole numbers as int64, seconds and scores as float64, times as microseconds
                      since 1970 UTC; 0 where null
    int32 each        length in bytes of each text and list; -1 where null
    the bytes         of each text (UTF-8) and list (int32 tokens, int64 counts), one after another

Lengths and nulls come first, so no two rows share their bytes. `sampling` enters as canonical JSON.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specdecode.errors import EvidenceError
from specdecode.measurement.arrays import MANY, coded, lengths, nulls, offsets, plain_text
from specdecode.measurement.records import RECORD_SCHEMA

_NESTED = [f.name for f in RECORD_SCHEMA if pa.types.is_string(f.type) or pa.types.is_list(f.type)]
_NUMBERS = [f.name for f in RECORD_SCHEMA if f.name not in _NESTED]
_WIDTH = 8 + 8 * len(_NUMBERS) + 4 * len(_NESTED)


class Encoder:
    """Rows to bytes, batch by batch."""

    def __init__(self) -> None:
        self._canonical: dict[str, str] = {}

    def encode(self, batch: pa.RecordBatch) -> tuple[memoryview, list[int]]:
        """The rows' bytes one after another, and n + 1 offsets into them.

        Args:
            batch: valid rows with all columns of `RECORD_SCHEMA`.

        Raises:
            EvidenceError: sampling parameters that JSON cannot write.
        """
        n = batch.num_rows
        row = np.zeros((n, _WIDTH), dtype=np.uint8)
        missing = np.zeros(n, dtype="<u8")
        for place, array in enumerate(batch.columns):
            if array.null_count:
                missing |= nulls(array).astype("<u8") << np.uint64(place)
        row[:, :8] = _bytes(missing)
        for place, name in enumerate(_NUMBERS, start=1):
            row[:, 8 * place : 8 * place + 8] = _bytes(_number(batch.column(name)))
        parts = []
        start = 8 + 8 * len(_NUMBERS)
        for name in _NESTED:
            array = batch.column(name)
            array = plain_text(self._sampling(coded(array)) if name == "sampling" else array)
            part, sizes = as_bytes(array)
            row[:, start : start + 4] = _bytes(sizes)
            start += 4
            parts.append(part)
        fixed = _binary(np.arange(0, _WIDTH * (n + 1), _WIDTH), row, None)
        joined = pc.binary_join_element_wise(
            fixed, *parts, pa.scalar(b"", pa.large_binary()),
            null_handling="replace", null_replacement="",
        )  # fmt: skip
        buffer = joined.buffers()[2]
        return memoryview(buffer if buffer is not None else b""), offsets(joined).tolist()

    def _sampling(self, array: pa.Array) -> pa.Array:
        texts = [self._canonical.get(text) or self._rewrite(text) for text in
                 array.dictionary.to_pylist()]  # fmt: skip
        return pa.DictionaryArray.from_arrays(array.indices, pa.array(texts, pa.string()))

    def _rewrite(self, text: str) -> str:
        try:
            found = json.dumps(
                json.loads(text), sort_keys=True, ensure_ascii=False, allow_nan=False
            )
            found.encode("utf-8")
        except ValueError as error:
            raise EvidenceError(f"sampling {text!r} is not JSON that can be kept: {error}") from error
        if len(self._canonical) < MANY:  # else every row has its own: nothing to keep
            self._canonical[text] = found
        return found


def _number(array: pa.Array) -> npt.NDArray[np.generic]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    zero = pa.scalar(0, array.type)
    filled = array.fill_null(zero) if array.null_count else array
    found = filled.to_numpy(zero_copy_only=False)
    return np.asarray(found, dtype="<f8" if pa.types.is_floating(array.type) else "<i8")


def as_bytes(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """The bytes of each text or list of numbers, and how many they are: -1 where null."""
    found, sizes = offsets(array), lengths(array)
    empty = nulls(array) if array.null_count else None
    data = array.buffers()[2] if pa.types.is_string(array.type) else None
    if pa.types.is_list(array.type):
        items = array.values
        width = items.type.bit_width // 8
        found = (found + items.offset) * width
        sizes = np.where(sizes < 0, sizes, sizes * width)
        data = items.buffers()[1]
    return _binary(found, data, empty), sizes.astype("<i4")


def _binary(
    found: npt.NDArray[np.int64], data: object, empty: npt.NDArray[np.bool_] | None
) -> pa.Array:
    valid = None if empty is None else pa.py_buffer(np.packbits(~empty, bitorder="little"))
    held = pa.py_buffer(b"") if data is None else pa.py_buffer(data)
    where = pa.py_buffer(np.ascontiguousarray(found, dtype=np.int64))
    return pa.Array.from_buffers(pa.large_binary(), len(found) - 1, [valid, where, held])


def _bytes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """[n] numbers as [n, width] bytes."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
