"""The bytes of a row: what its hash is taken of, in one fixed form whatever file it came from.

For each row, little-endian, columns in the order of `RECORD_SCHEMA`:

    uint64            bit i is set where column i is null
    8 bytes each      whole numbers as int64, seconds and scores as float64, times as microseconds
                      since 1970 UTC; 0 where null
    32 bytes, twice   SHA-256 of the labels of the run, and of those of the prompt (`_GROUPS`): of
                      each 8 bytes of its length, all ones where null, and its UTF-8; `sampling` as
                      JSON with sorted keys
    int32 each        length in bytes of each other text and each list; -1 where null
    the bytes         of each such text (UTF-8) and list (int32 tokens, int64 counts)

Lengths and nulls come before what they are of, so no two rows share their bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specdecode.errors import EvidenceError
from specdecode.measurement.arrays import (
    MANY,
    ArrowArray,
    lengths,
    nulls,
    offsets,
    plain_text,
)
from specdecode.measurement.coding import Labels, combinations
from specdecode.measurement.records import LABELS, RECORD_SCHEMA, STRATA

_NESTED = [f.name for f in RECORD_SCHEMA if pa.types.is_string(f.type) or pa.types.is_list(f.type)]
_NUMBERS = [f.name for f in RECORD_SCHEMA if f.name not in _NESTED]
_LONG = [name for name in _NESTED if name not in LABELS]
_GROUPS = (tuple(name for name in LABELS if name not in STRATA), STRATA)
LabelHashes = npt.NDArray[np.void]
_HASH = 32
_NULL = b"\xff" * 8


def _layout() -> np.dtype[np.void]:
    """What every row has, whatever is in it, byte for byte."""
    reals = [f.name for f in RECORD_SCHEMA if pa.types.is_floating(f.type)]
    return np.dtype(
        [
            ("null", "<u8"),
            *((name, "<f8" if name in reals else "<i8") for name in _NUMBERS),
            *((names[0], f"V{_HASH}") for names in _GROUPS),
            *((name, "<i4") for name in _LONG),
        ]
    )


_FIXED = _layout()


class Encoder:
    """Rows to bytes, batch by batch."""

    def __init__(self) -> None:
        self._hashes: dict[Labels, bytes] = {}

    def encode(
        self, batch: pa.RecordBatch, labels: Sequence[LabelHashes] | None = None
    ) -> tuple[memoryview, list[int]]:
        """The rows' bytes one after another, and n + 1 offsets into them.

        Args:
            batch: valid rows with all columns of `RECORD_SCHEMA`.
            labels: what `labels` gives for them, where it is there already.

        Raises:
            EvidenceError: sampling parameters that JSON cannot write.
        """
        n = batch.num_rows
        rows = np.empty(n, _FIXED)
        rows["null"] = _missing(batch)
        for name in _NUMBERS:
            rows[name] = _number(batch.column(name))
        for names, hashes in zip(_GROUPS, labels or self.labels(batch), strict=True):
            rows[names[0]] = hashes
        parts = []
        for name in _LONG:
            array = batch.column(name)
            if array.null_count == n:
                rows[name] = -1
                continue
            part, sizes = as_bytes(plain_text(array))
            rows[name] = sizes
            if (sizes > 0).any():
                parts.append(part)
        width = _FIXED.itemsize
        fixed = _binary(np.arange(0, width * (n + 1), width), rows.view(np.uint8), None)
        joined = pc.binary_join_element_wise(
            fixed, *parts, pa.scalar(b"", pa.large_binary()),
            null_handling="replace", null_replacement="",
        )  # fmt: skip
        buffer = joined.buffers()[2]
        return memoryview(buffer if buffer is not None else b""), offsets(joined).tolist()

    def labels(self, batch: pa.RecordBatch) -> list[LabelHashes]:
        """Hashes of the labels of each row, [n] for each of `_GROUPS`.

        Raises:
            EvidenceError: sampling parameters that JSON cannot write.
        """
        return [self._of_labels(batch, names) for names in _GROUPS]

    def _of_labels(self, batch: pa.RecordBatch, names: tuple[str, ...]) -> LabelHashes:
        """Computed once for each combination."""
        which, found = combinations([batch.column(name) for name in names])
        hashes = b"".join(self._hash(names, labels) for labels in found)
        return np.frombuffer(hashes, f"V{_HASH}")[which]

    def _hash(self, names: tuple[str, ...], labels: Labels) -> bytes:
        found = self._hashes.get(labels)
        if found is None:
            digest = hashlib.sha256()
            for name, label in zip(names, labels, strict=True):
                text = _canonical(label) if name == "sampling" and label is not None else label
                data = b"" if text is None else text.encode()
                digest.update(_NULL if text is None else len(data).to_bytes(8, "little"))
                digest.update(data)
            found = digest.digest()
            if len(self._hashes) < MANY:  # else every row has labels of its own: nothing to keep
                self._hashes[labels] = found
        return found


def _canonical(sampling: str) -> str:
    try:
        text = json.dumps(json.loads(sampling), sort_keys=True, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError) as error:
        raise EvidenceError(
            f"sampling {sampling[:200]!r} is not JSON that can be kept: {error}"
        ) from error
    return text


def _missing(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Bit i of each row: whether column i is null."""
    everywhere = sum(
        1 << place
        for place, array in enumerate(batch.columns)
        if array.null_count == batch.num_rows
    )
    missing = np.full(batch.num_rows, everywhere, dtype="<u8")
    for place, array in enumerate(batch.columns):
        if 0 < array.null_count < batch.num_rows:
            missing |= nulls(array).astype("<u8") << np.uint64(place)
    return missing


def _number(array: ArrowArray) -> npt.NDArray[np.generic]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    zero = pa.scalar(0, array.type)
    filled = array.fill_null(zero) if array.null_count else array
    found = filled.to_numpy(zero_copy_only=False)
    return np.asarray(found, dtype="<f8" if pa.types.is_floating(array.type) else "<i8")


def as_bytes(array: ArrowArray) -> tuple[ArrowArray, npt.NDArray[np.int32]]:
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
    found: npt.NDArray[np.int64], data: Any, empty: npt.NDArray[np.bool_] | None
) -> ArrowArray:
    valid: Any = None if empty is None else np.packbits(~empty, bitorder="little")
    where: Any = np.ascontiguousarray(found, dtype=np.int64)
    buffers = [
        None if valid is None else pa.py_buffer(valid),
        pa.py_buffer(where),
        pa.py_buffer(b"" if data is None else data),
    ]
    return pa.Array.from_buffers(pa.large_binary(), len(found) - 1, buffers)
