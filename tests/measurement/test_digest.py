"""The digest of rows: its definition, written out again, and that nothing but content enters it."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import EvidenceError
from specdecode.measurement import digest, two_readers
from specdecode.measurement.digest import FaultyRowError, digest_of, rows_sha256
from specdecode.measurement.encoding import Encoder
from specdecode.measurement.records import RECORD_SCHEMA, Record, to_table, write_parquet
from specdecode.measurement.source import ParquetSource, TableSource
from specdecode.measurement.two_readers import read_rows
from tests.measurement.factories import START, record, run, shuffled

ROWS = run(20)
OF_PROMPT = ("category", "difficulty", "language")
OF_RUN = ("arm", "stage", "profile", "finish_reason", "sampling", "manifest_sha256")
NULLABLE = [field.name for field in RECORD_SCHEMA if field.nullable]


def encoded(row):
    """The bytes of one row, as the module `encoding` documents them."""
    fields = row.model_dump() | {
        "sampling": json.dumps(row.sampling, sort_keys=True, ensure_ascii=False)
    }
    names = RECORD_SCHEMA.names
    nulls = sum(1 << place for place, name in enumerate(names) if fields[name] is None)
    numbers, sizes, data = b"", b"", b""
    for field in RECORD_SCHEMA:
        value = fields[field.name]
        if field.name in OF_PROMPT + OF_RUN:
            continue
        if pa.types.is_string(field.type) or pa.types.is_list(field.type):
            item = "<i" if field.name.endswith("token_ids") else "<q"
            found = b""
            if isinstance(value, str):
                found = value.encode()
            elif value is not None:
                found = b"".join(struct.pack(item, number) for number in value)
            sizes += struct.pack("<i", -1 if value is None else len(found))
            data += found
        elif pa.types.is_timestamp(field.type):
            numbers += struct.pack("<q", 0 if value is None else round(value.timestamp() * 1e6))
        else:
            kind = "<d" if pa.types.is_floating(field.type) else "<q"
            numbers += struct.pack(kind, 0 if value is None else value)
    labels = b""
    for group in (OF_RUN, OF_PROMPT):
        texts = [None if fields[name] is None else fields[name].encode() for name in group]
        labels += hashlib.sha256(
            b"".join(b"\xff" * 8 if t is None else struct.pack("<q", len(t)) + t for t in texts)
        ).digest()
    return struct.pack("<Q", nulls) + numbers + labels + sizes + data


def plainly(rows):
    hashes = sorted(hashlib.sha256(encoded(row)).digest() for row in rows)
    return hashlib.sha256(b"specdecode.rows/2\n" + b"".join(hashes)).hexdigest()


@st.composite
def some_row(draw):
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
    ids = draw(st.lists(st.integers(0, 2**31 - 1), max_size=4))
    changes = {
        "arm": draw(text),
        "error": draw(text),
        "category": draw(text),
        "output_text": draw(st.text(max_size=4, alphabet="aü\x00\n")),
        "output_token_ids": ids,
        "output_tokens": len(ids),
        "seed": draw(st.integers(-(2**63), 2**63 - 1)),
        "e2e_s": draw(st.floats(0, 1e9)),
        "acceptance_histogram": draw(st.lists(st.integers(0, 2**63 - 1), max_size=3)),
        "sampling": {"name": draw(text), "z": 1, "a": draw(st.none() | st.booleans() | text)},
    }
    changes |= dict.fromkeys(draw(st.sets(st.sampled_from(NULLABLE))))
    return Record.model_validate(record().model_dump() | changes)


@settings(max_examples=60, deadline=None)
@given(st.lists(some_row(), max_size=5))
def test_the_digest_is_what_its_definition_says(rows):
    assert rows_sha256(rows) == plainly(rows)
    assert rows_sha256(TableSource(to_table(rows))) == plainly(rows)


def test_a_digest_on_record_never_changes():
    row = record("p0", started_at=START)

    assert plainly([row]) == rows_sha256([row])
    assert rows_sha256([row]) == "9fad0afefad4a0a74a9558e197bb5afa48b86db23f7d8b3b343ce4ec8829887e"
    assert rows_sha256([]) == hashlib.sha256(b"specdecode.rows/2\n").hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"category": None}, {"category": "null"}),
        ({"category": "ab", "difficulty": "c"}, {"category": "a", "difficulty": "bc"}),
        ({"output_text": None}, {"output_text": ""}),
        ({"output_text": "ab", "error": "c"}, {"output_text": "a", "error": "bc"}),
        ({"acceptance_histogram": []}, {"acceptance_histogram": None}),
        ({"acceptance_histogram": [0]}, {"acceptance_histogram": [0, 0]}),
        ({"quality": None}, {"quality": 0.0}),
        ({"steps": 0}, {"steps": None}),
        ({"draft_s": 0.0}, {"draft_s": 5e-324}),
        ({"seed": 1, "order_index": 2}, {"seed": 2, "order_index": 1}),
    ],
)
def test_rows_that_differ_have_another_digest(one, other):
    assert rows_sha256([record(**one)]) != rows_sha256([record(**other)])


def test_a_repeated_row_counts_each_time():
    """A sum or an exclusive or of hashes could lose it."""
    digests = {rows_sha256([record("a")] + [record("b")] * times) for times in range(4)}

    assert len(digests) == 4


def test_files_give_the_digest_of_their_rows(tmp_path):
    write_parquet(shuffled(ROWS, 1), tmp_path / "a.parquet")
    pq.write_table(to_table(ROWS), tmp_path / "b.parquet", row_group_size=9, compression="none")
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(to_table(ROWS[:50]), folder / "2.parquet")
    pq.write_table(to_table(ROWS[50:]), folder / "1.parquet", use_dictionary=False)

    for path in (tmp_path / "a.parquet", tmp_path / "b.parquet", folder):
        assert rows_sha256(ParquetSource(path)) == rows_sha256(ROWS)


def test_how_a_writer_spells_sampling_does_not_matter():
    table = to_table(ROWS)
    spelled = [json.dumps(dict(reversed(json.loads(t).items())), indent=2) for t in
               table.column("sampling").to_pylist()]  # fmt: skip
    at = table.column_names.index("sampling")
    other = table.set_column(at, RECORD_SCHEMA.field("sampling"), pa.array(spelled))

    assert rows_sha256(TableSource(other)) == rows_sha256(ROWS)


def test_wide_rows_are_hashed_in_smaller_parts(monkeypatch):
    monkeypatch.setattr(digest, "_MOST_BYTES", 1000)

    assert rows_sha256(TableSource(to_table(ROWS))) == rows_sha256(ROWS)


def test_very_many_different_labels_are_each_hashed(monkeypatch):
    monkeypatch.setattr("specdecode.measurement.coding._MOST_COMBINED", 3)
    monkeypatch.setattr("specdecode.measurement.encoding.MANY", 2)

    assert rows_sha256(ROWS) == plainly(ROWS)
    assert Encoder().encode(to_table(ROWS[:2]).to_batches()[0])[1][1] == len(encoded(ROWS[0]))


@given(st.integers(0, 400), st.booleans(), st.integers(0, 9))
def test_hashes_are_sorted_by_all_their_bytes(n, alike, seed):
    hashes = np.random.default_rng(seed).integers(0, 256, (n, 32), dtype=np.uint8)
    if alike:
        hashes[:, :31] = hashes[:1, :31]
    wanted = hashlib.sha256(b"specdecode.rows/2\n" + b"".join(sorted(map(bytes, hashes))))

    assert digest_of([hashes[: n // 3], hashes[n // 3 :]]) == wanted.hexdigest()


@pytest.fixture
def grouped(tmp_path):
    """A file of many row groups, so that two processes share it."""
    pq.write_table(to_table(ROWS), tmp_path / "rows.parquet", row_group_size=13)
    return tmp_path / "rows.parquet"


def test_two_processes_find_the_digest_of_one(grouped):
    assert digest_of(read_rows(ParquetSource(grouped), worth_it=1).hashes) == rows_sha256(ROWS)


def test_what_a_second_process_leaves_undone_is_done(grouped, monkeypatch):
    monkeypatch.setattr(two_readers.sys, "executable", "/bin/false")

    assert digest_of(read_rows(ParquetSource(grouped), worth_it=1).hashes) == rows_sha256(ROWS)


@pytest.mark.parametrize("bad", [[2], [100], [2, 100], [119]])
def test_the_first_faulty_row_is_named_whichever_process_finds_it(tmp_path, bad):
    table = to_table(ROWS)
    values = table.column("ttft_s").to_pylist()
    for place in bad:
        values[place] = -1.0
    at = table.column_names.index("ttft_s")
    pq.write_table(
        table.set_column(at, "ttft_s", pa.array(values)), tmp_path / "r.parquet", row_group_size=13
    )
    label = f"row {bad[0]} \\({ROWS[bad[0]].request_id}\\): ttft_s"
    for worth_it in (1, 10**9):
        with pytest.raises(FaultyRowError, match=label):
            read_rows(ParquetSource(tmp_path / "r.parquet"), worth_it=worth_it)


def test_a_fault_of_the_later_half_that_is_no_rows_is_told_too(tmp_path):
    table = to_table(ROWS)
    texts = table.column("sampling").to_pylist()
    texts[-1] = '{"name": "greedy", "x": NaN}'
    at = table.column_names.index("sampling")
    table = table.set_column(at, RECORD_SCHEMA.field("sampling"), pa.array(texts))
    pq.write_table(table, tmp_path / "r.parquet", row_group_size=13)

    with pytest.raises(EvidenceError, match="not JSON that can be kept"):
        read_rows(ParquetSource(tmp_path / "r.parquet"), worth_it=1)


def test_the_second_process_ends_with_the_first(tmp_path, monkeypatch):
    table = to_table(ROWS)
    at = table.column_names.index("e2e_s")
    values = [-1.0, *table.column("e2e_s").to_pylist()[1:]]
    pq.write_table(table.set_column(at, "e2e_s", pa.array(values)), tmp_path / "r.parquet",
                   row_group_size=13)  # fmt: skip
    started = []
    start = subprocess.Popen

    def recorded(*args, **kwargs):
        started.append(start(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(two_readers.subprocess, "Popen", recorded)
    with pytest.raises(FaultyRowError, match="row 0"):
        read_rows(ParquetSource(tmp_path / "r.parquet"), worth_it=1)

    assert started[0].returncode is not None
