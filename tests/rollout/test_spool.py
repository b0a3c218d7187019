"""What a spool was handed is on disk; what is not is counted; what is read is what was written."""

from __future__ import annotations

import hashlib
import threading

import pytest

from specdecode.errors import EvidenceError, UserError
from specdecode.measurement.records import RECORD_SCHEMA, to_records
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_lines import ROUTER_STOPPED
from specdecode.rollout.spool_reader import (
    Selection,
    SpoolSource,
    read_spool,
    spool_errors,
    stages_of,
)
from specdecode.rollout.spool_snapshot import Snapshot
from tests.rollout.factories import CANARY, FULL, SHADOW, asked, record


def numbers(table):
    return sorted(table.column("order_index").to_pylist())


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = [
        record(0),
        record(1, "block", acceptance_histogram=[1, 0, 2], steps=3, accepted=4, drafted=6),
        record(2, error="http-5xx: HTTP 503: ünicode \u2028 and a half \ufffd"),
        record(3, output_token_ids=[1, 2, 3, 4, 5], category="chat", seed=-5),
    ]
    with Spool(tmp_path) as spool:
        for row in rows:
            spool.append(row, {"text_sha256": "0" * 64})
        spool.flush()
        while_open = read_spool(tmp_path)

    assert list(to_records(while_open)) == rows
    assert while_open.schema == RECORD_SCHEMA
    assert read_spool(tmp_path).equals(while_open)
    assert spool_errors(tmp_path) == []


def test_counts_tell_what_went_through(tmp_path):
    with Spool(tmp_path) as spool:
        for number in range(4):
            spool.begin(asked(number))
        spool.append(record(0))
        spool.append(record(1, error="disconnected: gone"))
        spool.without_row("refused", record(2).request_id, "HTTP 400")
        spool.flush()
        counts = spool.counts.to_json()

    assert counts == {
        "begun": 4, "recorded": 2, "errors": 1, "without_row": {"refused": 1}, "lost": 0,
        "segments": 0, "failed_syncs": 0, "in_flight": 1,
    }  # fmt: skip
    assert spool.counts.recorded == 3  # the fourth was in flight when the router ended
    assert spool.counts.segments == 1
    assert spool.counts.in_flight == 0


def test_a_request_in_flight_at_the_end_becomes_a_row_that_says_so(tmp_path):
    with Spool(tmp_path) as spool:
        spool.begin(asked(7, "block"))

    [row] = to_records(read_spool(tmp_path))
    assert row == record(7, "block", error=ROUTER_STOPPED)


def test_a_copy_that_still_waited_at_the_end_is_shed_and_takes_its_partner_with_it(tmp_path):
    partner = record(1, state=SHADOW)
    with Spool(tmp_path) as spool:
        spool.begin(asked(1, "plain", SHADOW))
        spool.append(partner)
        spool.queued(asked(1, "block", SHADOW), partner.request_id)

    assert read_spool(tmp_path).num_rows == 0
    [line] = Snapshot(tmp_path).lines("shed")
    assert line["retract"] == [partner.request_id]
    assert line["why"] == ROUTER_STOPPED


@pytest.mark.parametrize("first", ["row", "retraction"])
def test_what_is_retracted_does_not_count_whichever_came_first(tmp_path, first):
    with Spool(tmp_path, segment_rows=1) as spool:
        half = record(1, state=SHADOW)
        if first == "row":
            spool.append(half)
            spool.flush()
        spool.without_row("shed", "c0/000001/greedy/block", "full", retract=[half.request_id])
        if first == "retraction":
            spool.append(half)
        spool.append(record(2, state=SHADOW))

    assert numbers(read_spool(tmp_path)) == [2]


def test_an_unknown_kind_of_ending_is_refused(tmp_path):
    with Spool(tmp_path) as spool, pytest.raises(ValueError, match="none of cancelled"):
        spool.without_row("gone", "a", "b")


def test_rows_are_chosen_by_stage_step_and_manifest(tmp_path):
    half = CANARY.model_copy(update={"share": 0.5})
    other = FULL.model_copy(update={"manifest_sha256": "b" * 64})
    with Spool(tmp_path) as spool:
        for number, state in enumerate([SHADOW, CANARY, half, FULL, other]):
            spool.append(record(number, state=state))

    assert numbers(read_spool(tmp_path, stage="canary")) == [1, 2]
    assert numbers(read_spool(tmp_path, stage="canary", step="0.5")) == [2]
    assert numbers(read_spool(tmp_path, manifest_sha256="b" * 64)) == [4]
    assert numbers(read_spool(tmp_path, stage="watch", manifest_sha256="a" * 64)) == [3]
    assert read_spool(tmp_path, stage="offline").schema == RECORD_SCHEMA
    assert SpoolSource(tmp_path, Selection(stage="canary")).rows == 2
    assert stages_of(tmp_path, "b" * 64) == ["watch"]


def test_segments_are_closed_by_number_of_rows_with_a_digest_beside(tmp_path):
    with Spool(tmp_path, segment_rows=10) as spool:
        for number in range(35):
            spool.append(record(number))
            spool.flush()

    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert names == [f"rows-{n:08d}.jsonl" for n in range(1, 5)]
    for name in names:
        digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert (tmp_path / f"{name}.sha256").read_text() == f"{digest}  {name}\n"
    assert numbers(read_spool(tmp_path)) == list(range(35))


def test_a_segment_is_closed_by_age_though_nothing_comes_any_more(tmp_path):
    with Spool(tmp_path, segment_s=0.05) as spool:
        spool.append(record(0))
        closed = threading.Event()
        while not (tmp_path / "rows-00000001.jsonl").exists():
            assert not closed.wait(0.02)  # the test's own timeout ends it
        assert spool.recording


def test_requests_in_flight_go_along_into_the_next_segment(tmp_path):
    with Spool(tmp_path, segment_rows=2) as spool:
        spool.begin(asked(99))
        for number in range(5):
            spool.append(record(number))
            spool.flush()
        newest = max(tmp_path.glob("open-*.jsonl"))
        assert '"order_index": 99' in newest.read_text()
        spool.append(record(99))

    assert numbers(read_spool(tmp_path)) == [0, 1, 2, 3, 4, 99]


def test_the_next_router_goes_on_with_the_next_number(tmp_path):
    for run in range(3):
        with Spool(tmp_path) as spool:
            spool.append(record(run))
    with Spool(tmp_path):
        pass  # an empty run leaves nothing behind

    assert sorted(p.name for p in tmp_path.glob("*.jsonl")) == [
        f"rows-{n:08d}.jsonl" for n in (1, 2, 3)
    ]
    assert numbers(read_spool(tmp_path)) == [0, 1, 2]


def test_two_routers_cannot_write_into_one_folder(tmp_path):
    with Spool(tmp_path) as spool:
        with pytest.raises(UserError, match="another router records into this folder"):
            Spool(tmp_path)
        spool.append(record(0))
    with Spool(tmp_path):
        assert read_spool(tmp_path).num_rows == 1


def test_a_folder_that_cannot_be_written_is_refused_before_anything(tmp_path):
    (tmp_path / "spool").write_text("a file")

    with pytest.raises(OSError):
        Spool(tmp_path / "spool")


def test_a_folder_of_another_version_is_refused_and_untouched(tmp_path):
    (tmp_path / "spool.json").write_text('{"schema": "specdecode.rollout.spool/9"}')

    with pytest.raises(UserError, match="not the mark of a spool of this version"):
        Spool(tmp_path)
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_is_handed_over_after_the_end_is_counted_as_lost(tmp_path):
    spool = Spool(tmp_path)
    spool.close()
    spool.close()
    spool.append(record(0))

    assert spool.counts.lost == 1
    assert not spool.recording
    with pytest.raises(EvidenceError, match="no spool"):
        read_spool(tmp_path / "elsewhere")


def test_extra_that_json_cannot_write_costs_the_extra_and_not_the_row(tmp_path):
    with Spool(tmp_path) as spool:
        spool.append(record(0), {"when": object()})
        spool.note("broken", when=object())
        spool.append(record(1), {"speed": float("nan")})

    assert numbers(read_spool(tmp_path)) == [0, 1]
    assert spool.counts.lost == 0
