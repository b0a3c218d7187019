"""An extract says of every row what the row says, in fewer bytes."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.measurement.extract import Extractor, read_extracts
from specdecode.measurement.grid import COUNTS, SCORES, SECONDS
from specdecode.measurement.records import LABELS, RECORD_SCHEMA, to_table
from tests.measurement.factories import record, run

CODED = [name for name in LABELS if name not in ("finish_reason", "sampling")]
SOME = ["category", "difficulty", "language", "profile"]


def batch_of(rows, *, coded=()):
    [batch] = to_table(rows).to_batches()
    columns = [
        batch.column(name).dictionary_encode() if name in coded else batch.column(name)
        for name in batch.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@st.composite
def some_rows(draw):
    """Valid rows with nulls wherever there may be some, and with numbers of every size."""
    count = st.none() | st.sampled_from([0, 1, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1])
    second = st.none() | st.floats(0, 1e300)
    rows = []
    for number in range(draw(st.integers(1, 8))):
        changes = {name: draw(count) for name in (*COUNTS, "drafted", "prompt_tokens")}
        changes |= {name: draw(second) for name in SECONDS}
        changes |= {name: draw(st.none() | st.sampled_from(["a", "b", "ü"])) for name in SOME}
        changes |= {
            "quality": draw(st.none() | st.sampled_from([0.0, 0.5, 0.1, 1.0])),
            "error": draw(st.none() | st.just("lost")),
            "acceptance_histogram": draw(st.none() | st.lists(st.integers(0, 2**62), max_size=7)),
            "prompt_token_ids": draw(st.none() | st.lists(st.integers(0, 9), max_size=3)),
            "output_token_ids": None,
        }
        if changes["prompt_token_ids"] is not None:
            changes["prompt_tokens"] = len(changes["prompt_token_ids"])
        sampling = {"name": draw(st.sampled_from(["greedy", "own"])), "seed": number}
        row = record(f"p{number % 3}", **changes)
        rows.append(row.model_copy(update={"sampling": sampling}))
    return rows


def told(extract):
    """An extract as values, null as None."""
    return {
        name: [None if repr(value) == "nan" else value for value in values]
        for name, values in extract.columns.to_pydict().items()
    }


@settings(deadline=None)
@given(some_rows(), st.sets(st.sampled_from([*LABELS, "prompt_id"])))
def test_an_extract_says_what_the_rows_say(rows, coded):
    found = told(Extractor().of(batch_of(rows, coded=coded), 7))

    for name in ("prompt_id", *CODED, *SECONDS, *SCORES):
        assert found[name] == [getattr(row, name) for row in rows], name
    for name in COUNTS:
        assert found[name] == [-1 if (n := getattr(row, name)) is None else n for row in rows], name
    assert found["failed"] == [row.error is not None for row in rows]
    assert found["drafted"] == [None if row.drafted is None else row.drafted > 0 for row in rows]
    lengths = [-1 if row.acceptance_histogram is None else len(row.acceptance_histogram)
               for row in rows]  # fmt: skip
    assert found["histogram"] == lengths
    assert [json.loads(text) for text in found["sampling"]] == [
        {"name": row.sampling_name} for row in rows
    ]
    for one, hashed in zip(rows, found["prompt"], strict=True):
        for other, others in zip(rows, found["prompt"], strict=True):
            assert (one.prompt_token_ids == other.prompt_token_ids) is (hashed == others)


@settings(deadline=None, max_examples=30)
@given(some_rows(), some_rows())
def test_extracts_come_back_from_a_file_as_they_were(one, other):
    file, extractor = io.BytesIO(), Extractor()
    written = [extractor.of(batch_of(rows), first) for first, rows in ((9, one), (0, other))]
    for extract in written:
        extract.write(file)

    found = list(read_extracts(file))

    assert [(e.first, e.plain_ids) for e in found] == [(e.first, e.plain_ids) for e in written]
    assert [told(e) for e in found] == [told(e) for e in written]


def test_numbers_take_as_few_bytes_as_hold_them():
    [small, large] = (
        Extractor().of(batch_of([record(steps=n, output_tokens=None)]), 0).columns
        for n in (2**15 - 1, 2**15)
    )

    assert small.schema.field("steps").type == pa.int16()
    assert large.schema.field("steps").type == pa.int32()
    assert small.schema.field("arm").type == pa.dictionary(pa.int8(), pa.string())


def test_a_batch_does_not_carry_the_texts_of_all_others():
    """A file's dictionary is that of a row group, which many batches share."""
    texts = pa.array([f"language {number}" for number in range(300)])
    [batch] = to_table([record()]).to_batches()
    at = RECORD_SCHEMA.get_field_index("language")
    column = pa.DictionaryArray.from_arrays(pa.array([299], pa.int32()), texts)
    batch = batch.set_column(at, "language", column)

    found = Extractor().of(batch, 0).columns.column("language")

    assert found.dictionary.to_pylist() == ["language 299"]


@pytest.mark.parametrize(
    ("change", "plain"), [({}, True), ({"request_id": "other"}, False), ({"arm": "b"}, False)]
)
def test_ids_that_are_not_their_keys_are_told(change, plain):
    rows = run(3)
    rows[4] = rows[4].model_copy(update=change)
    extractor = Extractor()

    assert extractor.of(batch_of(rows), 0).plain_ids is plain
    assert extractor.of(batch_of(run(1)), 0).plain_ids is plain  # of all rows so far
