"""Reading a spool: one that is broken, and one that is being written."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading

import pytest

from specdecode.errors import EvidenceError
from specdecode.rollout import spool_snapshot
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_reader import (
    read_spool,
    spool_errors,
)
from tests.rollout.factories import asked, record


def numbers(table):
    return sorted(table.column("order_index").to_pylist())


class TestReadingBrokenSpools:
    @pytest.fixture
    def folder(self, tmp_path):
        with Spool(tmp_path, segment_rows=2) as spool:
            for number in range(6):
                spool.append(record(number))
                spool.flush()
        return tmp_path

    def test_one_changed_byte(self, folder):
        path = folder / "rows-00000002.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"e2e_s": 0.5', b'"e2e_s": 0.4', 1))

        with pytest.raises(EvidenceError, match=r"rows-00000002.jsonl: has another digest"):
            read_spool(folder)
        assert len(spool_errors(folder)) >= 1

    @pytest.mark.parametrize("harm", ["remove", "garble", "of another file"])
    def test_a_digest_that_is_none(self, folder, harm):
        path = folder / "rows-00000001.jsonl.sha256"
        if harm == "remove":
            path.unlink()
        elif harm == "garble":
            path.write_bytes(b"\xff\xfe")
        else:
            path.write_text((folder / "rows-00000002.jsonl.sha256").read_text())

        with pytest.raises(EvidenceError, match="rows-00000001"):
            read_spool(folder)

    def test_a_missing_segment(self, folder):
        (folder / "rows-00000002.jsonl").unlink()

        with pytest.raises(EvidenceError, match="segment 2 is missing"):
            read_spool(folder)
        with pytest.raises(EvidenceError, match="segment 2 is missing"):
            Spool(folder)

    def test_a_segment_there_twice(self, folder):
        shutil.copy(folder / "rows-00000002.jsonl", folder / "open-00000002.jsonl")

        with pytest.raises(EvidenceError, match="closed and open"):
            read_spool(folder)

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            (b"not a line\n", "no line of a spool"),
            (b'{"kind": "row", "record": {"request_id": 5}}\n', "line 4"),
            (b'{"kind": "row", "record": null}\n', "line 4"),
            (b'{"kind": "row", "record": {"prompt_id": "a"}}\n', "line 4"),
            (b'{"kind": "shed", "retract": }\n', "line 4"),
        ],
        ids=["foreign", "wrong type", "null", "incomplete", "broken"],
    )
    def test_a_line_that_is_none_though_its_digest_is_right(self, folder, line, why):
        path = folder / "rows-00000003.jsonl"
        path.write_bytes(path.read_bytes() + line)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")

        with pytest.raises(EvidenceError, match=why):
            read_spool(folder)
        assert spool_errors(folder)

    def test_foreign_files_do_not_disturb(self, folder):
        for name in ("notes.txt", "rows-1.jsonl", "rows-00000001.jsonl.bak", "open-x.jsonl"):
            (folder / name).write_text("hello")
        (folder / "rows-00000009").mkdir()

        assert numbers(read_spool(folder)) == list(range(6))
        with Spool(folder) as spool:
            spool.append(record(6))
        assert numbers(read_spool(folder)) == list(range(7))


def test_a_reader_beside_the_router_sees_every_row_that_was_acknowledged(tmp_path):
    problems, stop = [], threading.Event()
    acknowledged = [0]

    def read():
        while not stop.is_set():
            least = acknowledged[0]
            try:
                found = numbers(read_spool(tmp_path))
                if found != list(range(len(found))) or len(found) < least:
                    problems.append((least, found))
            except EvidenceError as error:
                problems.append(str(error))

    with Spool(tmp_path, segment_rows=3, sync_s=0.0) as spool:
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(120):
            spool.append(record(number))
            spool.flush()
            acknowledged[0] = number + 1
        stop.set()
        reader.join()

    assert problems == []


@pytest.mark.parametrize("glimpse", ["missing", "gone", "changed"])
def test_a_listing_taken_while_a_segment_is_closed_is_taken_again(tmp_path, monkeypatch, glimpse):
    with Spool(tmp_path) as spool:
        spool.append(record(0))
    real, calls = spool_snapshot.segments, []

    def listed(folder):
        calls.append(folder)
        closed, unfinished = real(folder)
        if len(calls) == 1 and glimpse == "missing":
            raise EvidenceError("segment 1 is missing")
        if len(calls) == 1 and glimpse == "gone":
            return {}, {1: folder / "open-00000001.jsonl"}
        return ({} if len(calls) == 1 else closed), unfinished

    monkeypatch.setattr(spool_snapshot, "segments", listed)
    assert numbers(read_spool(tmp_path)) == [0]


def test_lines_are_json_with_their_kind_first(tmp_path):
    with Spool(tmp_path) as spool:
        spool.begin(asked(0))
        spool.append(record(0))
        spool.note("pair", same=True)

    lines = (tmp_path / "rows-00000001.jsonl").read_text().splitlines()
    assert [next(iter(json.loads(line).items())) for line in lines] == [
        ("kind", kind) for kind in ("segment", "begin", "row", "note")
    ]
