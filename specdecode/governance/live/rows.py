"""The rows of a live stage in the order in which their requests began."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specdecode.measurement.arrays import BoolArray, FloatArray, IntArray, floats, nulls, plain_text
from specdecode.measurement.records import RECORD_SCHEMA, STRATA
from specdecode.measurement.source import Source

NUMBERS = (
    "ttft_s", "e2e_s", "draft_s", "verify_s", "other_s", "output_tokens", "steps", "drafted",
    "accepted", "target_tokens", "quality",
)  # fmt: skip
"""Columns that formulas of metrics read."""

_TEXTS = ("arm", "profile", *STRATA)
_COLUMNS = ("started_at", "request_id", "prompt_id", "sampling", "error", *_TEXTS, *NUMBERS)

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True)
class LiveRows:
    """Columns of rows, ordered by `started_at`, then `request_id`; all [n].

    Args:
        time: start of each request, microseconds since 1970 UTC.
        timed: whether it has one.
        ids: `request_id`.
        prompts: `prompt_id`.
        texts: arm, profile, strata and `sampling` (name of the setting); None where null.
        failed: whether the request failed.
        numbers: by name, NaN where missing.
    """

    time: IntArray
    timed: BoolArray
    ids: Texts
    prompts: Texts
    texts: Mapping[str, Texts]
    failed: BoolArray
    numbers: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.time)

    def __getattr__(self, name: str) -> Any:
        # What a metric's formula reads (`measurement.metrics.Numbers`).
        if name in NUMBERS:
            return self.numbers[name]
        raise AttributeError(name)

    def where(self, chosen: BoolArray | IntArray) -> LiveRows:
        """Some of the rows, by mask or by place."""
        return LiveRows(
            self.time[chosen],
            self.timed[chosen],
            self.ids[chosen],
            self.prompts[chosen],
            {name: column[chosen] for name, column in self.texts.items()},
            self.failed[chosen],
            {name: column[chosen] for name, column in self.numbers.items()},
        )

    def of(self, by: str, value: str | None) -> LiveRows:
        """Rows with one value of arm, profile, a stratum or `sampling`."""
        return self.where(np.asarray(self.texts[by] == value, dtype=np.bool_))


def read_live(source: Source) -> LiveRows:
    """Read valid rows; their order in the source does not matter.

    Raises:
        EvidenceError: the rows changed while they were read.
    """
    batches = [_plain(batch) for batch in source.batches(_COLUMNS)]
    table = pa.Table.from_batches(batches, schema=batches[0].schema) if batches else _empty()
    order: Any = pc.sort_indices(
        table, sort_keys=[("started_at", "ascending"), ("request_id", "ascending")]
    )
    table = table.take(order).combine_chunks()

    def column(name: str) -> Any:
        chunks = table.column(name).chunks
        return chunks[0] if chunks else pa.array([], table.schema.field(name).type)

    def texts(name: str) -> Texts:
        found = np.empty(len(table), dtype=object)
        found[:] = column(name).to_pylist()
        return found

    settings = texts("sampling")
    names = {text: str(json.loads(text)["name"]) for text in set(settings.tolist())}
    named = np.empty(len(settings), dtype=object)
    named[:] = [names[text] for text in settings.tolist()]
    started = column("started_at")
    return LiveRows(
        time=np.asarray(
            started.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64
        ),
        timed=~nulls(started),
        ids=texts("request_id"),
        prompts=texts("prompt_id"),
        texts={name: texts(name) for name in _TEXTS} | {"sampling": named},
        failed=~nulls(column("error")),
        numbers={name: floats(column(name)) for name in NUMBERS},
    )


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text as text where it came as codes, whose dictionaries differ from batch to batch."""
    arrays = [plain_text(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _empty() -> pa.Table:
    return pa.schema([RECORD_SCHEMA.field(name) for name in _COLUMNS]).empty_table()
