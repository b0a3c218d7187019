"""What a spool does when its disk, its folder or itself fails."""

from __future__ import annotations

import errno
import os
import shutil
import threading

import pytest

from specdecode.errors import EvidenceError, UserError
from specdecode.rollout import spool_segment, spool_writer
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_reader import (
    read_spool,
    spool_errors,
)
from specdecode.rollout.spool_settled import in_flight
from specdecode.rollout.spool_snapshot import Snapshot
from tests.rollout.factories import SHADOW, asked, record


def numbers(table):
    return sorted(table.column("order_index").to_pylist())


def full_disk(monkeypatch, *, after: int = 0):
    """Only the first `after` bytes still fit, until the switch that is returned is off."""
    real, state = os.pwrite, {"full": True, "left": after}

    def write(handle, data, place):
        if state["full"]:
            if state["left"] <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            data = bytes(data)[: state["left"]]
            state["left"] -= len(data)
        return real(handle, data, place)

    monkeypatch.setattr(spool_segment.os, "pwrite", write)
    return state


@pytest.mark.parametrize("after", [0, 1, 700, 2000])
def test_a_full_disk_holds_rows_up_and_loses_none(tmp_path, monkeypatch, after):
    monkeypatch.setattr(spool_writer, "RETRY_S", 0.01)
    with Spool(tmp_path) as spool:
        spool.append(record(0))
        spool.flush()
        disk = full_disk(monkeypatch, after=after)
        for number in range(1, 6):
            spool.append(record(number))
        with pytest.raises(UserError, match="No space left on device"):
            spool.flush()
        assert not spool.recording
        assert "No space left" in spool.failure
        assert set(numbers(read_spool(tmp_path))) >= {0}

        disk["full"] = False
        while not spool.recording:
            threading.Event().wait(0.005)
        spool.flush()
        assert spool.recording
        assert spool.failure is None

    assert numbers(read_spool(tmp_path)) == list(range(6))
    assert spool.counts.lost == 0


def test_what_does_not_fit_into_memory_while_the_disk_is_full_is_lost_and_said_so(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(spool_writer, "RETRY_S", 0.01)
    monkeypatch.setattr(spool_writer, "HELD_BYTES", 1500)
    with Spool(tmp_path) as spool:
        spool.append(record(0, state=SHADOW))
        spool.flush()
        disk = full_disk(monkeypatch)
        for number in range(1, 21):
            spool.append(record(number))
        with pytest.raises(UserError):
            spool.flush()
        while not spool.counts.lost:
            threading.Event().wait(0.005)
        disk["full"] = False
        while not spool.recording:
            threading.Event().wait(0.005)

    lost = spool.counts.lost
    assert 0 < lost < 20
    assert numbers(read_spool(tmp_path, stage="shadow")) == [0]  # whose rows are all there
    with pytest.raises(EvidenceError, match=f"{lost} rows of canary could not be recorded"):
        read_spool(tmp_path, stage="canary")
    assert "could not be recorded" in spool_errors(tmp_path)[0]


def test_a_disk_that_stays_full_until_the_end_loses_no_row_that_was_acknowledged(
    tmp_path, monkeypatch
):
    spool = Spool(tmp_path)
    spool.append(record(0))
    spool.flush()
    full_disk(monkeypatch, after=100)
    spool.append(record(1))
    spool.begin(asked(2))
    spool.close()

    assert spool.counts.lost == 1
    assert numbers(read_spool(tmp_path)) == [0]


def test_a_failed_sync_is_never_taken_for_a_good_one(tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    spool.append(record(0))
    spool.flush()

    def broken(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(spool_segment.os, "fsync", broken)
    spool.append(record(1))
    with pytest.raises(UserError, match="Input/output error"):
        spool.flush()
    spool.append(record(2))
    with pytest.raises(UserError, match="Input/output error"):
        spool.flush()
    assert not spool.recording
    monkeypatch.undo()
    spool.close()
    assert spool.counts.lost == 0

    with Spool(tmp_path):
        assert numbers(read_spool(tmp_path)) == [0, 1, 2]


def failing_syncs(monkeypatch, times):
    """The next syncs fail."""
    real, left = os.fsync, [None] * times

    def fsync(handle):
        if left:
            left.pop()
            raise OSError(errno.EIO, "Input/output error")
        real(handle)

    monkeypatch.setattr(spool_segment.os, "fsync", fsync)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_after_a_failed_sync_it_goes_on_in_another_segment(tmp_path, monkeypatch, times):
    # Recording used to end there, until somebody started the router anew.
    monkeypatch.setattr(spool_writer, "RETRY_S", 0.01)
    spool = Spool(tmp_path)
    spool.append(record(0))
    spool.begin(asked(7))
    spool.begin(asked(8))
    spool.flush()
    first = next(tmp_path.glob("open-*"))
    safe = first.read_bytes()

    failing_syncs(monkeypatch, times)
    spool.append(record(1))
    spool.append(record(8))
    while spool.counts.failed_syncs < 1:
        threading.Event().wait(0.005)
    while not spool.recording:
        threading.Event().wait(0.005)
    spool.append(record(2))
    spool.flush()

    assert numbers(read_spool(tmp_path, settled=False)) == [0, 1, 2, 8]
    assert in_flight(Snapshot(tmp_path)).prompts == {asked(7)["prompt_id"]}
    # Of the failed one there is what was synced before, and the rest aside.
    assert (tmp_path / "rows-00000001.jsonl").read_bytes() == safe
    assert b'"row"' in next(tmp_path.glob("*.torn")).read_bytes()
    assert spool_errors(tmp_path) == []
    spool.append(record(7))
    spool.close()
    assert numbers(read_spool(tmp_path)) == [0, 1, 2, 7, 8]
    assert (spool.counts.lost, spool.counts.recorded) == (0, 5)


def test_a_failed_sync_of_a_segment_that_is_full_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_writer, "RETRY_S", 0.01)
    real, failed = spool_segment.Segment.close, []

    def close(segment):
        if segment.number == 1 and not failed:
            failed.append(1)
            segment.give_up()
            raise OSError(errno.EIO, "Input/output error")
        real(segment)

    monkeypatch.setattr(spool_segment.Segment, "close", close)
    with Spool(tmp_path, segment_rows=2, sync_s=0.0) as spool:
        for number in range(7):
            spool.append(record(number))
            threading.Event().wait(0.01)
        while not (spool.counts.failed_syncs and spool.recording):
            threading.Event().wait(0.005)

    assert spool.counts.failed_syncs == 1
    assert numbers(read_spool(tmp_path)) == list(range(7))
    assert spool_errors(tmp_path) == []


@pytest.mark.parametrize("where", ["line_of", "Segment.sync"])
def test_a_fault_of_the_spool_itself_is_told_and_never_hangs(tmp_path, monkeypatch, where):
    def broken(*_):
        raise RuntimeError("a fault")

    spool = Spool(tmp_path)
    spool.append(record(0))
    spool.flush()
    monkeypatch.setattr(spool_writer, where, broken) if where == "line_of" else (
        monkeypatch.setattr(spool_segment.Segment, "sync", broken)
    )
    spool.append(record(1))
    with pytest.raises(UserError, match="RuntimeError: a fault"):
        spool.flush()
    assert not spool.recording
    spool.close()

    assert 0 in numbers(read_spool(tmp_path))


@pytest.mark.parametrize("harm", ["removed", "replaced"])
def test_a_folder_that_goes_is_noticed(tmp_path, harm):
    folder = tmp_path / "spool"
    spool = Spool(folder, sync_s=0.0)
    spool.append(record(0))
    spool.flush()
    if harm == "removed":
        shutil.rmtree(folder)
    else:
        folder.rename(tmp_path / "old")
        shutil.copytree(tmp_path / "old", folder)

    spool.append(record(1))
    with pytest.raises(UserError, match="removed or replaced"):
        spool.flush()
    assert not spool.recording
    spool.close()
