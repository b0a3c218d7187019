"""The verifier's digest of rows in a bundle is the one that audit and verdict name."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specdecode.governance.verifier.verify import COLUMNS, TamperedError, row_hash, rows_digest
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import RECORD_SCHEMA, Record, to_table
from specdecode.measurement.source import TableSource
from tests.measurement.factories import record

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
TOKENS = st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=4)
EDGES = [-0.0, 0.0, 1.0, 3, 5e-324, 1e-300, 0.1 + 0.2, 1e22]
OF_TYPE = {
    pa.string(): TEXT,
    pa.int64(): st.integers(0, 2**63 - 1),
    pa.float64(): st.sampled_from(EDGES) | st.floats(0, 1e300),
    pa.list_(pa.int64()): st.lists(st.integers(0, 2**63 - 1), max_size=3),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
}
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SAMPLING = st.dictionaries(TEXT, st.none() | st.booleans() | NUMBER | TEXT, max_size=3)


@st.composite
def some_row(draw):
    fields = {}
    for field in RECORD_SCHEMA:
        if field.type in OF_TYPE:
            values = OF_TYPE[field.type]
            fields[field.name] = draw(st.none() | values if field.nullable else values)
    for name in ("prompt", "output"):
        ids = draw(TOKENS)
        fields |= {f"{name}_token_ids": ids}
        fields |= {} if ids is None else {f"{name}_tokens": len(ids)}
    fields |= {
        "sampling": draw(SAMPLING) | {"name": draw(TEXT)},
        "seed": draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        "quality": draw(st.sampled_from([None, -0.0, 0, 1, 1e-300, 0.1])),
        "output_text": draw(st.none() | st.text(alphabet='aü\x00\n\u2028"\\😀', max_size=4)),
        "manifest_sha256": "c" * 64,
    }
    return Record.model_validate(fields)


def read_back(rows):
    return [json.loads(row.to_json_line()) for row in rows]


@settings(max_examples=150, deadline=None)
@given(st.lists(some_row(), max_size=3))
@example([record(e2e_s=-0.0)])
@example([record(started_at=datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC))])
@example([record(started_at=datetime(2026, 11, 30, 4, 5, 6, 70, tzinfo=UTC))])
def test_the_verifier_computes_the_digest_of_audit_and_verdict(rows):
    assert rows_digest(read_back(rows)) == rows_sha256(rows)
    assert rows_digest(read_back(rows)) == rows_sha256(TableSource(to_table(rows)))


def test_the_verifier_knows_every_column_in_order():
    kinds = {pa.int64(): "q", pa.float64(): "d", pa.timestamp("us", tz="UTC"): "q",
             pa.list_(pa.int32()): "list i", pa.list_(pa.int64()): "list q"}  # fmt: skip

    assert list(COLUMNS) == RECORD_SCHEMA.names
    for field in RECORD_SCHEMA:
        known = COLUMNS[field.name]
        assert known in ("text", "run", "prompt") if pa.types.is_string(field.type) else (
            known == kinds[field.type]
        )  # fmt: skip


@pytest.mark.parametrize("change", [{"note": "more"}, {"seed": ...}])
def test_a_row_has_its_fields_and_no_others(change):
    [row] = read_back([record()])
    row = {name: value for name, value in (row | change).items() if value is not ...}

    with pytest.raises(TamperedError, match="other fields"):
        row_hash(row)
