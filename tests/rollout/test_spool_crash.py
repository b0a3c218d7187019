"""However the writer ends, nothing that it was promised is gone, and nothing is there twice."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.measurement.records import to_records
from specdecode.rollout import spool_repair, spool_segment
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_lines import ROUTER_STOPPED
from specdecode.rollout.spool_reader import read_spool, spool_errors
from specdecode.rollout.spool_snapshot import Snapshot
from tests.rollout.crashing_writer import write_forever
from tests.rollout.factories import SHADOW, asked, record


def killed(folder, first, seed):
    """The number after the last that was acknowledged, and whether a router could have begun."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rollout.crashing_writer"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=write_forever, args=(folder, first, seed, theirs))
    process.start()
    theirs.close()
    draw = random.Random(seed)  # noqa: S311 - a seed, no secret
    acknowledged = ours.recv()
    for _ in range(draw.randint(0, 12)):
        acknowledged = ours.recv()
    # And now somewhere within the work that follows, seldom at its beginning.
    ours.poll(draw.random() * 0.004)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with contextlib.suppress(EOFError):
        while True:
            acknowledged = ours.recv()
    return acknowledged


def test_after_kill_nine_all_that_was_acknowledged_is_there_once(tmp_path):
    acknowledged, ranges = 0, []
    for seed in range(24):
        first = acknowledged + 1000  # what was written beyond the promise keeps its numbers
        acknowledged = killed(tmp_path, first, seed)
        ranges.append(range(first, acknowledged))
    with Spool(tmp_path):
        pass

    rows = list(to_records(read_spool(tmp_path)))
    assert spool_errors(tmp_path) == []
    assert len({row.request_id for row in rows}) == len(rows)
    found = {row.order_index: row for row in rows if row.arm == "plain"}
    dropped = {int(each.split("/")[1]) for each in Snapshot(tmp_path).exceptions().retracted}
    for number in (number for each in ranges for number in each):
        if number % 3 == 0:  # its copy never was sent
            assert number in dropped
            assert number not in found
        elif number % 7 == 0:
            assert found[number].error == ROUTER_STOPPED
        elif number % 5 == 0:
            assert number not in found
        else:
            assert found[number].error is None
            assert found[number].output_token_ids == [0, 1, 2, 3, 4]
    assert sum(len(each) for each in ranges) > 100


def crashed(folder, *, cut: bytes | None = None, damage: bytes | None = None):
    """A spool as a crash leaves it: three rows, one request in flight, a copy that waits."""
    with Spool(folder, segment_rows=100) as spool:
        spool.append(record(0))
        spool.begin(asked(1))
        spool.append(record(2, state=SHADOW))
        spool.queued(asked(2, "block", SHADOW), record(2, state=SHADOW).request_id)
        spool.append(record(3))
        spool.flush()
        content = (folder / "open-00000001.jsonl").read_bytes()
    for path in folder.glob("rows-*"):
        path.unlink()
    lines = content.splitlines(keepends=True)
    if damage is not None:
        lines.insert(2, damage)
    (folder / "open-00000001.jsonl").write_bytes(b"".join(lines) + (cut or b""))


def repaired_rows(folder):
    return sorted((row.order_index, row.arm, row.error) for row in to_records(read_spool(folder)))


WHOLE = [(0, "plain", None), (1, "plain", ROUTER_STOPPED), (3, "plain", None)]


@pytest.mark.parametrize(
    ("cut", "damage"),
    [
        (None, None),
        (b'{"kind": "row", "rec', None),
        (b"\x00" * 512, None),
        (b'{"kind": "row", "record": {}}', None),
        (None, b"\x00\xff\r garbage\n"),
        (b"half", b'{"kind": "begin"}\n'),
    ],
    ids=["whole", "half a line", "zeros", "no line end", "damage inside", "both"],
)
def test_what_is_no_line_is_kept_aside_and_the_rest_counts(tmp_path, cut, damage):
    crashed(tmp_path, cut=cut, damage=damage)

    with Spool(tmp_path) as spool:
        repaired = spool.repaired

    assert repaired_rows(tmp_path) == WHOLE
    assert (repaired.stopped, repaired.shed) == (1, 1)
    kept = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.torn")))
    assert kept == (damage or b"") + (cut or b"")
    assert repaired.torn_bytes == len(kept)
    assert spool_errors(tmp_path) == []


@given(place=st.integers(0, 4000))
@settings(max_examples=40, deadline=None)
def test_wherever_the_file_was_cut_off_no_whole_line_is_lost(tmp_path_factory, place):
    folder = tmp_path_factory.mktemp("spool")
    crashed(folder)
    path = folder / "open-00000001.jsonl"
    content = path.read_bytes()[:place]
    path.write_bytes(content)
    whole = content[: content.rfind(b"\n") + 1]

    with Spool(folder):
        pass

    rows = {row.request_id: row for row in to_records(read_spool(folder))}
    for number in (0, 3):
        line = record(number).request_id.encode()
        assert (record(number).request_id in rows) == (b'"row"' in whole and line in whole)
    kept = b"".join(each.read_bytes() for each in folder.glob("*.torn"))
    assert kept == content[len(whole) :]
    assert spool_errors(folder) == []


class Cut(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", range(1, 12))
def test_a_repair_that_was_cut_off_itself_is_taken_up_again(tmp_path, monkeypatch, step):
    """Every call that changes the disk is, in one of the runs, the one that never comes."""
    crashed(tmp_path, cut=b"half", damage=b"garbage\n")
    calls = [0]

    def counted(real):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] >= step:
                raise Cut
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(spool_repair, "written_whole", counted(spool_repair.written_whole))
        patch.setattr(spool_segment, "written_whole", counted(spool_segment.written_whole))
        patch.setattr(os, "fsync", counted(os.fsync))
        with contextlib.suppress(Cut):
            Spool(tmp_path).close()
        assert calls[0] >= step  # so there is such a step
    with Spool(tmp_path):
        pass

    assert repaired_rows(tmp_path) == WHOLE
    kept = {path.read_bytes() for path in tmp_path.glob("*.torn")}
    assert b"garbage\nhalf" in kept
    assert spool_errors(tmp_path) == []


def test_a_crash_before_the_old_segment_was_closed_leaves_two_and_both_count(tmp_path):
    crashed(tmp_path)
    lines = (tmp_path / "open-00000001.jsonl").read_bytes().splitlines(keepends=True)
    begun = next(line for line in lines if line.startswith(b'{"kind": "begin"'))
    with Spool(tmp_path / "other") as spool:
        spool.append(record(9))
        spool.flush()
        other = (tmp_path / "other" / "open-00000001.jsonl").read_bytes()
    head, row = other.splitlines(keepends=True)[:2]
    second = tmp_path / "open-00000002.jsonl"
    second.write_bytes(head.replace(b'"number": 1', b'"number": 2') + begun + row)

    with Spool(tmp_path) as spool:
        assert spool.repaired.next_number == 3

    assert repaired_rows(tmp_path) == [*WHOLE, (9, "plain", None)]


def test_a_request_that_no_record_can_be_made_of_is_noted(tmp_path):
    with Spool(tmp_path) as spool:
        spool.begin({"request_id": "odd"})

    assert read_spool(tmp_path).num_rows == 0
    [line] = Snapshot(tmp_path).lines("note")
    assert (line["of"], line["asked"]) == ("unusable", {"request_id": "odd"})
