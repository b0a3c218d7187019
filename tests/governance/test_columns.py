"""Deciding by columns finds what reading row by row finds, on tables with all kinds of faults."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.errors import EvidenceError
from specdecode.governance import Status, decide
from specdecode.governance.survey import survey
from specdecode.measurement import source as source_module
from specdecode.measurement.extract import Extractor
from specdecode.measurement.intervals import (
    difference_interval,
    metric_interval,
    quantile_ratio_interval,
    ratio_interval,
)
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.pairing import pair
from specdecode.measurement.records import RECORD_SCHEMA, to_records, to_table, write_parquet
from specdecode.measurement.source import TableSource
from specdecode.measurement.two_readers import read_rows
from tests.governance.plans import ARMS, small_plan
from tests.governance.reference import findings
from tests.measurement.factories import OTHER_MANIFEST, audit, run

FEW = run(4)
GAMMA = [dict(arm, num_speculative_tokens=4) if arm["draft"] else arm for arm in ARMS]
LOOSE = {"max_missing_share": 0.2}
BIG = 2**62

FAULTS = {
    "arm": ["lossy", "block", "plain"],
    "prompt_id": ["p0001", "p0002", "p9"],
    "stage": ["canary"],
    "profile": [None, "smoke"],
    "category": [None, "chat", "other"],
    "language": ["xx"],
    "error": ["out of memory"],
    "manifest_sha256": [OTHER_MANIFEST],
    "request_id": ["p0001/greedy/plain", "x", "p0000/sampled"],
    "prompt_token_ids": [None, [], [1, 2, 4], [9, 2, 3]],
    "finish_reason": [None, "stop", "length"],
    "output_tokens": [None, 0, 1, 32, 33],
    "ttft_s": [None, 0.0, 99.0],
    "tpot_s": [None, 0.0, 0.5],
    "e2e_s": [None, 0.0, 99.0],
    "steps": [None, 0, 1, 10],
    "drafted": [None, 0, 1, 4, BIG],
    "accepted": [None, 0, 1, BIG],
    "acceptance_histogram": [None, [], [0], [3, 1], [BIG, BIG, BIG, BIG], [0, 0, BIG, 0, 0]],
    "quality": [None, 0.0, 0.5],
    "sampling": [
        {"name": "greedy", "temperature": 0.7, "max_tokens": 32},
        {"name": "sampled", "temperature": 0, "max_tokens": None},
        {"name": "sampled", "max_tokens": "32"},
        {"name": "sampled", "max_tokens": 2, "seed": 5},
        {"name": "greedy", "temperature": 0.0, "max_tokens": 10**30},
        {"name": "greedy", "temperature": 0.0, "max_tokens": -3, "seed": 8},
        {"name": "third"},
    ],
}
CHANGE = st.sampled_from(sorted(FAULTS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(FAULTS[name]))
)


@st.composite
def faulty_rows(draw):
    """Four prompts, two settings, three arms; rows changed, dropped and doubled, and shuffled."""
    rows = list(FEW)
    for place in draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)):
        name, value = draw(CHANGE)
        changes = {name: value}
        if name in ("output_tokens", "prompt_token_ids"):
            changes |= {"output_token_ids": None, "prompt_tokens": None}
        rows[place] = rows[place].model_copy(update=changes)
    for place in draw(st.lists(st.integers(0, len(rows) - 1), max_size=2)):
        name, value = draw(CHANGE)
        twin = rows[place].model_copy(update={name: value} if draw(st.booleans()) else {})
        rows.append(twin.model_copy(update={"output_token_ids": None, "prompt_tokens": None}))
    drop = draw(st.sets(st.integers(0, len(rows) - 1), max_size=3))
    rows = [row for place, row in enumerate(rows) if place not in drop]
    return draw(st.permutations(rows))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=faulty_rows(), gamma=st.booleans(), loose=st.booleans(), size=st.sampled_from([1, 7, 99])
)
def test_checks_by_columns_find_what_checks_by_rows_find(rows, gamma, loose, size):
    plan = small_plan(
        **({"arms": GAMMA} if gamma else {}) | ({"missing_data": LOOSE} if loose else {})
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "BATCH_ROWS", size)
        verdict = decide(plan, to_table(rows), audit(rows))
    found = {
        entry.name.removeprefix("integrity/"): None if entry.remedy is None else entry.reason
        for entry in verdict.rules
        if entry.role == "integrity"
    }

    for name, wanted in findings(plan, rows).items():
        assert found[name] == wanted, name
    mixed = len({row.manifest_sha256 for row in rows}) > 1
    assert ("different manifests" in (found["manifest"] or "")) is mixed
    assert (verdict.rows, verdict.prompts) == (len(rows), len({row.prompt_id for row in rows}))


SETTING = st.sampled_from([None, "greedy", "sampled", "third"])


@st.composite
def gappy_rows(draw):
    """Rows of up to three settings, valid, with gaps, nulls and failures."""
    rows = run(draw(st.integers(1, 6)), seed=draw(st.integers(0, 99)))
    again = [
        row.model_copy(
            update={
                "sampling": row.sampling | {"name": "third"},
                "request_id": f"{row.prompt_id}/third/{row.arm}",
                "e2e_s": (row.e2e_s or 0) * 1.3,
            }
        )
        for row in run(3, seed=5)
        if row.sampling_name == "sampled"
    ]
    rows += again
    nulls = ("e2e_s", "ttft_s", "output_tokens", "steps", "accepted", "quality", "target_tokens")
    for place in draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)):
        changes = draw(
            st.sampled_from([{name: None} for name in nulls] + [{"error": "lost"}, {"steps": 0}])
        )
        rows[place] = rows[place].model_copy(update=changes | {"output_token_ids": None})
    drop = draw(st.sets(st.integers(0, len(rows) - 1), max_size=3))
    return draw(st.permutations([row for place, row in enumerate(rows) if place not in drop]))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=gappy_rows(), setting=SETTING)
def test_intervals_by_columns_are_those_of_records(rows, setting):
    arms = {"plain": False, "token": True, "block": True}
    grid = survey(read_rows(TableSource(to_table(rows))), arms, ["greedy", "sampled", "third"]).grid
    own = [row for row in rows if setting in (None, row.sampling_name)]
    pairing, pairs = pair(own, "block", "token"), grid.pairs("block", "token", setting)
    same = {"level": 0.9}
    drawn = same | {"seed": 3}

    assert pairs.prompts == len(set(pairing.clusters))
    for name in ("mean_acceptance_length", "target_tokens_per_output_token"):
        block = [row for row in own if row.arm == "block"]
        requests = grid.requests("block", setting)
        assert metric_interval(METRICS[name], requests, **same) == metric_interval(
            METRICS[name], block, **same
        )
    speed, quality, tail = (METRICS[n] for n in ("output_tokens_per_s", "quality", "tpot_s"))
    assert ratio_interval(speed, pairs, **same) == ratio_interval(speed, pairing, **same)
    assert difference_interval(quality, pairs, **drawn) == difference_interval(
        quality, pairing, **drawn
    )
    assert quantile_ratio_interval(tail, pairs, 0.9, **drawn) == quantile_ratio_interval(
        tail, pairing, 0.9, **drawn
    )


def test_strata_hold_the_pairs_of_their_value():
    rows = run(24)
    arms = {"plain": False, "token": True, "block": True}
    whole = survey(read_rows(TableSource(to_table(rows))), arms, ["greedy", "sampled"]).grid.pairs(
        "block", "plain"
    )
    for by, value in (("difficulty", "hard"), ("language", "ja"), ("sampling", "greedy")):
        field = "sampling_name" if by == "sampling" else by
        chosen = [row for row in rows if getattr(row, field) == value]
        metric = METRICS["output_tokens_per_s"]
        assert ratio_interval(metric, whole.within(by, value), level=0.9) == ratio_interval(
            metric, pair(chosen, "block", "plain"), level=0.9
        )
    assert whole.within("category", "none of them").prompts == 0


@pytest.fixture
def pieces(tmp_path):
    """120 rows as one table, one file, one of many row groups, and a folder of files."""
    table = to_table(run(20))
    write_parquet(table, tmp_path / "one.parquet")
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=7)
    folder = tmp_path / "folder"
    folder.mkdir()
    for part in range(3):
        pq.write_table(table.slice(50 * part, 50), folder / f"{part}.parquet")
    return table, [tmp_path / "one.parquet", tmp_path / "groups.parquet", folder]


def test_files_are_decided_on_as_the_table_they_hold(pieces):
    table, paths = pieces
    wanted = decide(small_plan(), table, audit(run(20)))

    assert wanted.status is Status.GO
    for path in paths:
        assert decide(small_plan(), path, audit(run(20))).to_bytes() == wanted.to_bytes()


def test_columns_a_file_lacks_are_null(pieces, tmp_path):
    table, _ = pieces
    withheld = ["prompt_token_ids", "output_token_ids", "output_text", "peak_rss_bytes"]
    pq.write_table(table.drop_columns(withheld), tmp_path / "few.parquet")
    rows = [row.model_copy(update=dict.fromkeys(withheld)) for row in run(20)]

    verdict = decide(small_plan(), tmp_path / "few.parquet", audit(rows))

    assert verdict.status is Status.GO


VALUES = st.sampled_from([math.nan, math.inf, -1.0, 2.0, 1e300])


@settings(max_examples=40, deadline=None)
@given(
    places=st.dictionaries(st.integers(0, 23), VALUES, min_size=1, max_size=3),
    column=st.sampled_from(["ttft_s", "quality", "other_s"]),
    size=st.sampled_from([1, 5, 64]),
)
def test_the_first_value_no_record_has_is_named_as_records_name_it(places, column, size):
    table = to_table(FEW)
    values = table.column(column).to_pylist()
    for place, value in places.items():
        values[place] = value
    at = table.column_names.index(column)
    table = table.set_column(at, RECORD_SCHEMA.field(column), pa.array(values, pa.float64()))
    try:
        list(to_records(table))
        wanted = None
    except EvidenceError as error:
        wanted = f"integrity/readable: {error}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "BATCH_ROWS", size)
        reasons = decide(small_plan(), table, audit(FEW)).reasons

    assert (reasons[0] if reasons[0].startswith("integrity/readable") else None) == wanted


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("arm", "", "row 8 (p0001/greedy/block): arm"),
        ("error", "", "row 8 (p0001/greedy/block): error"),
        ("steps", -1, "row 8 (p0001/greedy/block): steps"),
        ("manifest_sha256", "A" * 64, "row 8 (p0001/greedy/block): manifest_sha256"),
        ("sampling", "{", "row 8 (p0001/greedy/block): sampling"),
        ("sampling", "[1]", "row 8 (p0001/greedy/block): sampling"),
        ("sampling", '{"name": ""}', "row 8 (p0001/greedy/block): record"),
        ("sampling", '{"name": "greedy", "x": NaN}', "is not JSON that can be kept"),
        ("prompt_token_ids", [1, -2, 3], "row 8 (p0001/greedy/block): prompt_token_ids"),
        ("prompt_token_ids", [1, None, 3], "row 8 (p0001/greedy/block): prompt_token_ids"),
        ("prompt_tokens", 4, "row 8 (p0001/greedy/block): record: Value error, prompt_tokens is 4"),
        ("arm", None, "column arm has 1 nulls"),
    ],
)
@pytest.mark.parametrize("from_file", [False, True])
def test_a_row_that_is_no_record_is_invalid(tmp_path, column, value, reason, from_file):
    table = to_table(FEW)
    values = table.column(column).to_pylist()
    values[8] = value
    at, kind = table.column_names.index(column), table.schema.field(column).type
    rows = table.set_column(at, column, pa.array(values, kind))
    if from_file:
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=5)
        rows = tmp_path / "rows.parquet"

    verdict = decide(small_plan(), rows, audit(FEW))

    assert verdict.status is Status.INVALID
    assert reason in verdict.reasons[0]
    assert verdict.rows_sha256 is None


def test_a_path_that_leads_nowhere_is_no_verdict(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    for path in (tmp_path / "rows.parquet", tmp_path / "none.parquet"):
        with pytest.raises(EvidenceError, match=path.name):
            decide(small_plan(), path, audit(FEW))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EvidenceError, match="no parquet files"):
        decide(small_plan(), tmp_path / "empty", audit(FEW))


def test_rows_that_change_while_they_are_read_are_invalid(pieces, monkeypatch):
    _, (path, *_) = pieces
    extract = Extractor.of

    def exchanged(extractor, batch, first):
        write_parquet(run(20, seed=1), path)
        return extract(extractor, batch, first)

    monkeypatch.setattr(Extractor, "of", exchanged)
    verdict = decide(small_plan(), path, audit(run(20)))

    assert verdict.status is Status.INVALID
    assert "changed while they were read" in verdict.reasons[0]


def test_ids_that_are_not_their_keys_are_told_apart(pieces):
    def named(row, number):
        return row.model_copy(update={"request_id": f"request {number}"})

    rows = [named(row, number) for number, row in enumerate(run(20))]
    twice = [*rows[:-3], *(named(row, 7) for row in rows[-3:])]

    assert decide(small_plan(), to_table(rows), audit(rows)).status is Status.GO
    verdict = decide(small_plan(), to_table(twice), audit(twice))
    assert "rows occur twice: request 7" in verdict.reasons[0]


def test_more_settings_and_arms_than_the_plan_has_do_not_take_a_cell_each():
    """A setting of its own for each row would be a grid of rows × rows."""
    rows = [
        row.model_copy(
            update={
                "sampling": row.sampling | {"name": f"own {number}"},
                "request_id": f"{row.prompt_id}/own {number}/{row.arm}",
                "prompt_id": f"p{number}",
            }
        )
        for number, row in enumerate(run(200))
    ]
    found = survey(
        read_rows(TableSource(to_table(rows))), {"plain": False, "block": True}, ["greedy"]
    )

    assert found.grid.works.shape == (1200, 1, 2)
    assert not found.present.any()
    assert np.array_equal(found.unlike, [])
    assert found.keys.repeated is None


@pytest.mark.parametrize(("beyond", "contradicts"), [(0, False), (1, True)])
def test_as_many_tokens_may_be_accepted_as_were_drafted_and_no_more(beyond, contradicts):
    rows = list(FEW)
    rows[1] = rows[1].model_copy(update={"drafted": rows[1].accepted - beyond})
    reasons = decide(small_plan(), to_table(rows), audit(rows)).reasons

    assert any("contradict" in reason for reason in reasons) is contradicts
