"""What the checks and the rules need of each row, in few bytes, so that rows are read only once.

An extract is a batch of the same rows, in the same order, with these columns:

    prompt_id, sampling and labels     as codes; of `sampling` without the seed, which each request
                                       may have its own of
    prompt                             128 bits of the hash of its token ids, as codes; null where
                                       they are withheld
    failed, contradictory              whether the row is
    drafted                            whether a token was drafted; null if not told
    histogram                          length of the acceptance histogram; -1 where null
    COUNTS                             in the smallest type that holds them; -1 where null
    SECONDS, SCORES                    the same; NaN where null
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import IOBase
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specdecode.measurement.arrays import (
    ArrowArray,
    IntArray,
    coded,
    counts,
    floats,
    lengths,
    nulls,
    plain_text,
    taken,
    texts,
)
from specdecode.measurement.coding import Coder
from specdecode.measurement.consistency import Settings, contradictory, read_settings
from specdecode.measurement.encoding import as_bytes
from specdecode.measurement.grid import COUNTS, SCORES, SECONDS
from specdecode.measurement.records import LABELS

_CODED = tuple(name for name in LABELS if name not in ("finish_reason", "sampling"))
_PROMPT_HASH = 16


class Extract(NamedTuple):
    """Some rows, narrowed.

    Args:
        first: number of the first of them.
        plain_ids: whether each of their request ids is prompt/setting/arm.
        columns: see above.
    """

    first: int
    plain_ids: bool
    columns: pa.RecordBatch

    def write(self, file: BinaryIO) -> None:
        """Append to a file."""
        about = {"first": str(self.first), "plain_ids": str(int(self.plain_ids))}
        batch = self.columns.replace_schema_metadata(about)
        with pa.ipc.new_stream(cast(IOBase, file), batch.schema) as stream:
            stream.write_batch(batch)


def read_extracts(file: BinaryIO) -> Iterator[Extract]:
    """What was written to a file, from its start."""
    end = file.seek(0, 2)
    file.seek(0)
    while file.tell() < end:
        [batch] = pa.ipc.open_stream(cast(IOBase, file))
        about = batch.schema.metadata
        yield Extract(int(about[b"first"]), about[b"plain_ids"] == b"1", batch)


class Extractor:
    """Makes extracts of batches of valid rows."""

    def __init__(self) -> None:
        self._texts = Coder()  # of sampling parameters, as written
        self._settings: list[Settings] = []  # of each text
        self._plain = True

    def of(self, batch: pa.RecordBatch, first: int) -> Extract:
        """The extract of a batch.

        Args:
            batch: with all columns of a record.
            first: number of its first row.
        """
        which = self._texts.codes(batch.column("sampling"))
        self._settings += [read_settings(t) for t in self._texts.values[len(self._settings) :]]
        if self._plain:  # no use in going on once it is not
            self._plain = _ids_are_plain(batch, [s.name for s in self._settings], which)
        failed = ~nulls(batch.column("error"))
        columns: dict[str, Any] = {
            "prompt_id": coded(batch.column("prompt_id")),
            "sampling": _chosen([s.alike for s in self._settings], which),
            **{name: _narrow_codes(batch.column(name)) for name in _CODED},
            "prompt": _prompts(batch.column("prompt_token_ids")),
            "failed": failed,
            "contradictory": ~failed & contradictory(batch, self._settings, which),
            "drafted": pc.greater(batch.column("drafted"), pa.scalar(0, pa.int64())),
            "histogram": _narrow(lengths(batch.column("acceptance_histogram"))),
            **{name: _narrow(counts(batch.column(name))) for name in COUNTS},
            **{name: floats(batch.column(name)) for name in SECONDS},
            **{name: _narrow_floats(floats(batch.column(name))) for name in SCORES},
        }
        arrays = [v if isinstance(v, pa.Array) else pa.array(v) for v in columns.values()]
        return Extract(first, self._plain, pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def _ids_are_plain(batch: pa.RecordBatch, names: list[str], which: IntArray) -> bool:
    setting = taken(texts(names), which)
    parts = [batch.column("prompt_id"), setting, plain_text(batch.column("arm"))]
    wanted = pc.binary_join_element_wise(*map(plain_text, parts), "/")
    return bool(pc.all(pc.equal(wanted, batch.column("request_id")), min_count=0).as_py())


def _chosen(values: list[str], which: IntArray) -> ArrowArray:
    """Texts by their numbers, as codes of those only that occur."""
    used = np.bincount(which, minlength=len(values)) > 0
    place = np.cumsum(used) - 1
    found = [value for value, u in zip(values, used.tolist(), strict=True) if u]
    return pa.DictionaryArray.from_arrays(pa.array(_narrow(place[which])), texts(found))


def _narrow_codes(array: ArrowArray) -> ArrowArray:
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > len(array):
        array = plain_text(array)  # a file's texts may be many more than a batch has
    array = coded(array)
    size = len(array.dictionary)
    kind = pa.int8() if size < 2**7 else pa.int16() if size < 2**15 else pa.int32()
    return pa.DictionaryArray.from_arrays(array.indices.cast(kind), array.dictionary)


def _narrow(values: IntArray) -> npt.NDArray[np.signedinteger[Any]]:
    most = int(values.max(initial=0))
    if most < 2**15:
        return values.astype(np.int16)
    return values.astype(np.int32) if most < 2**31 else values


def _narrow_floats(values: npt.NDArray[np.float64]) -> npt.NDArray[np.floating[Any]]:
    short = values.astype(np.float32)
    return short if np.array_equal(short, values, equal_nan=True) else values


def _prompts(ids: ArrowArray) -> ArrowArray:
    """128 bits of the hash of each prompt, as codes."""
    if ids.null_count == len(ids):
        return pa.nulls(len(ids))
    found = pc.dictionary_encode(as_bytes(ids)[0])
    hashes = [hashlib.sha256(ids).digest()[:_PROMPT_HASH] for ids in found.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(found.indices, pa.array(hashes, pa.binary(_PROMPT_HASH)))
