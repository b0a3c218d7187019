"""However rows lie in files, and whoever reads them, the same is kept of them."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specdecode.errors import EvidenceError
from specdecode.governance import decide
from specdecode.governance.survey import survey
from specdecode.measurement import digest, source, two_readers
from specdecode.measurement.digest import digest_of, rows_sha256
from specdecode.measurement.records import RECORD_SCHEMA, to_table
from specdecode.measurement.source import ParquetSource, TableSource
from specdecode.measurement.two_readers import read_rows
from tests.governance.plans import small_plan
from tests.measurement.factories import audit, run

ARMS = {"plain": False, "token": True, "block": True}
ALONE, SHARED = 10**9, 1
ROWS = run(20)
NULLABLE = [field.name for field in RECORD_SCHEMA if field.nullable]


def with_nulls():
    """Rows of which each lacks another column, and one all of them."""
    lacking = [{name: None} for name in NULLABLE] + [dict.fromkeys(NULLABLE)]
    pairs = {"output_tokens": "output_token_ids", "prompt_tokens": "prompt_token_ids"}
    rows = list(ROWS)
    for place, changes in enumerate(lacking):
        more = {pairs[name]: None for name in changes if name in pairs}
        rows[3 * place] = rows[3 * place].model_copy(update=changes | more)
    return rows


def write(table, folder, *, sizes, **options):
    """A folder of files with some rows each, and row groups of seven."""
    folder.mkdir()
    start = 0
    for number, size in enumerate([*sizes, table.num_rows]):
        part = table.slice(start, size)
        pq.write_table(part, folder / f"{number:02}.parquet", row_group_size=7, **options)
        start += part.num_rows
    return folder


def kept(rows):
    """What is kept, row by row."""
    found = {}
    for first, _, columns in rows.extracts():
        for place, row in enumerate(columns.to_pylist(), start=first):
            assert place not in found
            found[place] = repr(row)  # NaN is itself
    return [found[place] for place in range(len(found))]


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"use_dictionary": ["arm"]}])
@pytest.mark.parametrize("sizes", [[], [1, 0, 50], [13, 13, 13]])
def test_what_is_kept_of_rows_does_not_depend_on_files_or_readers(tmp_path, sizes, options):
    rows = with_nulls()
    wanted = read_rows(TableSource(to_table(rows)))
    folder = write(to_table(rows), tmp_path / "rows", sizes=sizes, **options)

    for worth_it in (ALONE, SHARED):
        found = read_rows(ParquetSource(folder), worth_it=worth_it)
        assert digest_of(found.hashes) == digest_of(wanted.hashes) == rows_sha256(rows)
        assert kept(found) == kept(wanted)


def test_a_table_that_is_large_is_kept_in_files():
    large = read_rows(TableSource(to_table(ROWS)), worth_it=1)

    assert kept(large) == kept(read_rows(TableSource(to_table(ROWS)), worth_it=ALONE))
    assert digest_of(large.hashes) == rows_sha256(ROWS)


@pytest.mark.parametrize("faulty", [False, True])
def test_verdicts_are_the_same_whoever_reads(tmp_path, monkeypatch, faulty):
    """With every integrity check in it, and every rule when nothing is wrong."""
    rows = with_nulls() if faulty else ROWS
    wanted = decide(small_plan(), to_table(rows), audit(rows)).to_bytes()
    folder = write(to_table(rows), tmp_path / "rows", sizes=[30, 1, 40])
    monkeypatch.setattr(two_readers, "WORTH_IT", 1)

    assert decide(small_plan(), folder, audit(rows)).to_bytes() == wanted


def test_surveys_are_the_same_in_whatever_order_extracts_come(tmp_path):
    rows = with_nulls()
    folder = write(to_table(rows), tmp_path / "rows", sizes=[20])
    settings = ["greedy", "sampled"]
    one = survey(read_rows(TableSource(to_table(rows))), ARMS, settings)
    other = survey(read_rows(ParquetSource(folder), worth_it=SHARED), ARMS, settings)

    assert one.keys.cell.tolist() == other.keys.cell.tolist()
    for name in ("failed", "contradictory", "misnamed", "unlike", "present", "lacking", "scored"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    assert (one.stages, one.profiles, one.work) == (other.stages, other.profiles, other.work)


def test_what_a_killed_process_had_finished_is_kept(tmp_path, monkeypatch):
    folder = write(to_table(ROWS), tmp_path / "rows", sizes=[])
    ask, turn = two_readers._Second._ask, itertools.count()

    def killed_after_two(second, number):
        if next(turn) == 2:
            second.process.kill()
        return ask(second, number)

    monkeypatch.setattr(two_readers._Second, "_ask", killed_after_two)
    # The first process leaves everything to the second until that has ended.
    read_left, waited = two_readers._read_left, itertools.count()

    def late(*args):
        if next(waited):
            read_left(*args)

    monkeypatch.setattr(two_readers, "_read_left", late)
    found = read_rows(ParquetSource(folder), worth_it=SHARED)

    assert next(turn) == 3
    assert digest_of(found.hashes) == rows_sha256(ROWS)
    assert kept(found) == kept(read_rows(TableSource(to_table(ROWS))))


@pytest.mark.parametrize("worth_it", [ALONE, SHARED])
def test_a_file_that_comes_while_rows_are_read_is_noticed(tmp_path, worth_it):
    folder = write(to_table(ROWS), tmp_path / "rows", sizes=[60])
    opened = ParquetSource(folder)
    pq.write_table(to_table(ROWS[:1]), folder / "0.parquet")

    with pytest.raises(EvidenceError, match="changed while they were read"):
        read_rows(opened, worth_it=worth_it)


def test_a_second_process_does_not_read_other_files(tmp_path):
    """The number of a piece would mean another piece there."""
    folder = write(to_table(ROWS), tmp_path / "rows", sizes=[60])

    assert two_readers.main(str(folder), "[[1, 2, 3]]", "", "") == 1


@pytest.mark.parametrize("worth_it", [ALONE, SHARED])
def test_a_file_without_rows_must_have_the_columns_all_the_same(tmp_path, worth_it):
    folder = write(to_table(ROWS), tmp_path / "rows", sizes=[60])
    pq.write_table(pa.table({"note": pa.array([], pa.string())}), folder / "zz.parquet")

    with pytest.raises(EvidenceError, match="columns missing"):
        read_rows(ParquetSource(folder), worth_it=worth_it)


@pytest.mark.parametrize(("unwritable", "negative"), [(1, 9), (9, 1), (1, 1)])
def test_of_two_faults_the_one_in_the_earlier_part_is_named(monkeypatch, unwritable, negative):
    monkeypatch.setattr(digest, "_MOST_ROWS", 4)
    columns = {"sampling": '{"name": "greedy", "x": NaN}', "ttft_s": -1.0}
    table = to_table(ROWS)
    for (name, value), place in zip(columns.items(), (unwritable, negative), strict=True):
        values = table.column(name).to_pylist()
        values[place] = value
        field = RECORD_SCHEMA.field(name)
        table = table.set_column(
            table.column_names.index(name), field, pa.array(values, field.type)
        )
    assert table.num_rows < source.BATCH_ROWS

    wanted = "not JSON that can be kept" if unwritable < negative else f"row {negative} .*ttft_s"
    with pytest.raises(EvidenceError, match=wanted):
        read_rows(TableSource(table))


def test_rows_that_got_lost_on_the_way_are_missed():
    read = read_rows(TableSource(to_table(ROWS)))
    read.files[0].truncate(0)

    with pytest.raises(EvidenceError, match="0 rows were kept where 120 were announced"):
        survey(read, ARMS, ["greedy", "sampled"])
