"""Attacks on what `decide` reads, before there is a bundle: INVALID, or the same verdict."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.errors import EvidenceError
from specdecode.governance import Status, decide
from specdecode.measurement.records import LABELS, to_table, write_parquet
from tests.governance.faults.integrity import PLAN, ROWS
from tests.measurement.factories import audit, shuffled

AUDIT = audit(ROWS)
VERDICT = decide(PLAN, to_table(ROWS), AUDIT)
MAY_BE_NULL = ("profile", "category", "difficulty", "language", "finish_reason")


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Bytes of a file of rows."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    write_parquet(ROWS, path)
    return path.read_bytes()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_flipped_bit_of_the_file_changes_nothing_or_makes_it_invalid(content, tmp_path, data):
    """Some bytes say nothing that is read; whatever is read is hashed, and the audit names it."""
    # Half of the examples are of the end, where the file says what its columns are.
    start = data.draw(st.sampled_from([0, len(content) - 8000]))
    at, bit = data.draw(st.integers(start, len(content) - 1)), data.draw(st.integers(0, 7))
    path = tmp_path / "rows.parquet"
    path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])

    try:
        verdict = decide(PLAN, path, AUDIT)
    except EvidenceError as error:
        assert str(path) in str(error)
    else:
        assert verdict.status is Status.INVALID or verdict == VERDICT


def test_codes_beyond_their_dictionary_are_unreadable_rows(content, tmp_path, monkeypatch):
    """What a flipped bit may leave of a column of labels; it used to end in an IndexError."""
    path = tmp_path / "rows.parquet"
    path.write_bytes(content)
    intact = pq.ParquetFile.iter_batches

    def damaged(self, *given, **named):
        for batch in intact(self, *given, **named):
            place = batch.schema.get_field_index("category")
            column = batch.column(place)
            beyond = pa.array([len(column.dictionary)] * len(column), pa.int32())
            codes = pa.DictionaryArray.from_arrays(beyond, column.dictionary, safe=False)
            yield batch.set_column(place, "category", codes)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", damaged)
    verdict = decide(PLAN, path, AUDIT)

    assert verdict.exit_code == 12
    assert "Dictionary indices invalid" in verdict.reasons[0]


@pytest.mark.parametrize("name", LABELS)
def test_a_file_without_a_column_is_invalid(tmp_path, name):
    """It used to end in a KeyError of pyarrow, because these columns are read as dictionaries."""
    path = tmp_path / "rows.parquet"
    pq.write_table(to_table(ROWS).drop_columns([name]), path)

    verdict = decide(PLAN, path, AUDIT)

    assert verdict.exit_code == 12
    reason = "made of other rows" if name in MAY_BE_NULL else f"columns missing: {name}"
    assert reason in verdict.reasons[0]


def test_a_file_whose_names_are_no_text_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(to_table(ROWS), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"difficulty", b"diffi\xe9ulty"))

    with pytest.raises(EvidenceError, match="cannot be read as parquet"):
        decide(PLAN, path, AUDIT)


@pytest.mark.parametrize("seed", range(3))
def test_reordering_the_rows_changes_no_byte_of_the_verdict(seed):
    assert decide(PLAN, to_table(shuffled(ROWS, seed)), AUDIT).to_bytes() == VERDICT.to_bytes()


OTHER = {"token": "block", "block": "token"}
ROW_ATTACKS = {
    "arms exchanged": [r.model_copy(update={"arm": OTHER.get(r.arm, r.arm)}) for r in ROWS],
    "a prompt left out": [r for r in ROWS if r.prompt_id != "p0004"],
    "an arm left out": [r for r in ROWS if r.arm != "token"],
    "a time shortened": [ROWS[0].model_copy(update={"ttft_s": 0.01, "tpot_s": None}), *ROWS[1:]],
    "an order changed": [ROWS[0].model_copy(update={"order_index": 77}), *ROWS[1:]],
}


@pytest.mark.parametrize("name", ROW_ATTACKS)
def test_other_rows_are_not_those_the_audit_is_of(name):
    verdict = decide(PLAN, to_table(ROW_ATTACKS[name]), AUDIT)

    assert verdict.exit_code == 12
    assert any("the audit was made of other rows" in reason for reason in verdict.reasons)


def test_a_table_that_names_a_column_twice_is_invalid():
    table = to_table(ROWS)
    twice = pa.Table.from_arrays(
        [*table.columns, table.column("arm")], names=[*table.column_names, "arm"]
    )

    assert decide(PLAN, twice, AUDIT).exit_code == 12
