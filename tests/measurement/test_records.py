from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from specdecode.errors import EvidenceError
from specdecode.measurement import records
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import (
    RECORD_SCHEMA,
    Record,
    checked,
    read_parquet,
    read_records,
    to_records,
    to_table,
    write_parquet,
)
from tests.measurement.factories import record, run, shuffled

NULLABLE = [field.name for field in RECORD_SCHEMA if field.nullable]


def test_record_and_schema_have_the_same_fields_and_the_same_nullability():
    optional = {n for n, f in Record.model_fields.items() if not f.is_required()}

    assert set(Record.model_fields) == set(RECORD_SCHEMA.names)
    assert optional == set(NULLABLE)


def test_every_field_is_described():
    assert all(field.description for field in Record.model_fields.values())


@settings(deadline=None)  # the first call imports arrow
@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    seconds=st.floats(0, 1e6),
    ids=st.lists(st.integers(0, 2**31 - 1), max_size=5),
    dropped=st.sets(st.sampled_from(NULLABLE)),
)
def test_a_row_survives_json_and_arrow_unchanged(text, seconds, ids, dropped):
    changes = {"output_text": text, "e2e_s": seconds, "output_token_ids": ids}
    row = record(**(changes | {"output_tokens": len(ids)} | dict.fromkeys(dropped)))

    line = row.to_json_line()

    assert "\n" not in line
    assert Record.from_json_line(line) == row
    assert list(to_records(to_table([row]))) == [row]


def test_missing_is_null_and_never_zero(tmp_path):
    row = Record(
        request_id="p/greedy/plain",
        prompt_id="p",
        arm="plain",
        stage="offline",
        sampling={"name": "greedy"},
        manifest_sha256="0" * 64,
    )
    write_parquet([row], tmp_path / "rows.parquet")

    stored = read_parquet(tmp_path / "rows.parquet").to_pylist()[0]

    assert all(stored[name] is None for name in NULLABLE)


@pytest.mark.parametrize(
    "changes",
    [
        {"ttft_s": math.nan},
        {"e2e_s": math.inf},
        {"e2e_s": -0.1},
        {"quality": 1.5},
        {"accepted": -1},
        {"output_tokens": 4},
        {"manifest_sha256": "short"},
        {"sampling": {"temperature": 1.0}},
        {"sampling": "{not json"},
        {"started_at": "2026-01-01T00:00:00"},
        {"surprise": 1},
    ],
    ids=repr,
)
def test_a_value_no_measurement_can_have_is_refused(changes):
    fields = record().model_dump() | changes

    with pytest.raises(ValidationError):
        Record.model_validate(fields)


def test_equal_rows_give_equal_bytes_and_digest_ignores_order(tmp_path):
    rows = run(4)
    write_parquet(rows, tmp_path / "a.parquet")
    write_parquet(to_table(rows), tmp_path / "b.parquet")

    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert rows_sha256(rows) == rows_sha256(shuffled(rows, 1))
    assert rows_sha256(rows) != rows_sha256(rows[:-1])
    assert read_records(tmp_path / "a.parquet") == rows


def test_key_order_and_time_zone_of_the_writer_do_not_enter_the_digest():
    start = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=9)))
    here = record(started_at=start)
    there = record(started_at=start.astimezone(UTC))
    reordered = here.model_copy(update={"sampling": dict(reversed(here.sampling.items()))})

    assert rows_sha256([here]) == rows_sha256([there]) == rows_sha256([reordered])
    assert rows_sha256(to_records(to_table([reordered]))) == rows_sha256([here])


def test_a_missing_required_column_is_named(tmp_path):
    table = to_table([record()]).drop_columns(["sampling", "arm", "quality"])
    pq.write_table(table, tmp_path / "r.parquet")

    with pytest.raises(EvidenceError, match=r"r\.parquet: columns missing: arm, sampling$"):
        read_parquet(tmp_path / "r.parquet")


def test_columns_an_engine_need_not_record_may_be_absent(tmp_path):
    """What is left is the 24 columns that engines of every kind record."""
    ours = (
        *("profile", "prompt_token_ids", "output_text", "seed", "draft_s", "verify_s", "other_s"),
        *("target_tokens", "peak_rss_bytes"),
    )
    rows = run(3)
    pq.write_table(to_table(rows).drop_columns(list(ours)), tmp_path / "r.parquet")

    table = read_parquet(tmp_path / "r.parquet")

    assert table.schema == RECORD_SCHEMA
    assert list(to_records(table)) == [row.model_copy(update=dict.fromkeys(ours)) for row in rows]


def test_a_column_that_occurs_twice_is_refused():
    table = to_table([record()])
    twice = table.append_column("quality", table.column("quality")).drop_columns(["error"])

    with pytest.raises(EvidenceError, match="a column occurs twice"):
        checked(twice)


def test_an_unknown_column_is_named(tmp_path):
    table = to_table([record()]).append_column("extra", pa.array([1]))
    pq.write_table(table, tmp_path / "r.parquet")

    with pytest.raises(EvidenceError, match="columns no record has: extra"):
        read_parquet(tmp_path / "r.parquet")


def test_a_column_of_another_type_is_named(tmp_path):
    table = to_table([record()])
    place = table.column_names.index("e2e_s")
    table = table.set_column(place, "e2e_s", pa.array(["fast"]))
    pq.write_table(table, tmp_path / "r.parquet")

    with pytest.raises(EvidenceError, match="column e2e_s is string, not double"):
        read_parquet(tmp_path / "r.parquet")


def test_a_null_where_a_value_must_be_is_named(tmp_path):
    table = to_table([record()])
    place = table.column_names.index("arm")
    pq.write_table(table.set_column(place, "arm", pa.array([None], pa.string())), tmp_path / "r")

    with pytest.raises(EvidenceError, match="column arm has 1 nulls"):
        read_parquet(tmp_path / "r")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_file_is_evidence_that_cannot_be_read(tmp_path, damage):
    path = tmp_path / "rows.parquet"
    write_parquet(run(3), path)
    content = path.read_bytes()
    broken = {"cut": content[: len(content) // 2], "flipped": b"X" + content[1:-4] + b"XXXX"}
    path.write_bytes(broken.get(damage, b""))

    with pytest.raises(EvidenceError, match="cannot be read as parquet"):
        read_parquet(path)


def test_no_file_says_what_to_run(tmp_path):
    with pytest.raises(EvidenceError, match="`make evaluate` measures them"):
        read_parquet(tmp_path / "rows.parquet")


def test_nan_smuggled_into_parquet_is_found_with_its_row(tmp_path):
    table = to_table([record("a"), record("b")])
    place = table.column_names.index("ttft_s")
    table = table.set_column(place, RECORD_SCHEMA.field("ttft_s"), pa.array([0.1, math.nan]))
    write_parquet(table, tmp_path / "r.parquet")

    with pytest.raises(EvidenceError, match=r"row 1 \(b/greedy/plain\): ttft_s"):
        read_records(tmp_path / "r.parquet")


def test_a_failed_write_leaves_the_old_file_and_no_debris(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    write_parquet([record("old")], path)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        write_parquet([record("new")], path)

    monkeypatch.undo()
    assert [r.prompt_id for r in read_records(path)] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_sampling_is_readable_json_in_parquet():
    stored = to_table([record(sampling="sampled")]).column("sampling").to_pylist()[0]

    assert json.loads(stored)["name"] == "sampled"
