"""Closed segments are read once, and that is never seen in what comes out."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import EvidenceError
from specdecode.rollout import spool_snapshot
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_cache import SegmentCache
from specdecode.rollout.spool_reader import read_spool
from tests.rollout.factories import SHADOW, asked, record


@pytest.fixture
def folder(tmp_path):
    with Spool(tmp_path / "spool", segment_rows=2) as spool:
        for number in range(6):
            spool.append(record(number))
            spool.flush()
    return tmp_path / "spool"


@pytest.fixture
def cache(tmp_path):
    return SegmentCache(tmp_path / "cache")


def whole_and_remembered(folder, cache, **more):
    """Both ways of reading, each with its rows or its error."""
    found = []
    for memory in (None, cache):
        try:
            found.append(read_spool(folder, memory=memory, **more).to_pylist())
        except EvidenceError as error:
            found.append(type(error))
    return found


def test_a_second_look_reads_only_what_is_new(folder, cache, monkeypatch):
    # Every look used to read the whole spool.
    first = read_spool(folder, memory=cache)
    assert cache.read == len(list(folder.glob("rows-*.jsonl"))) == 3
    with Spool(folder) as spool:
        spool.append(record(6))
        spool.flush()
        opened, real = [], spool_snapshot.Part._opened
        monkeypatch.setattr(
            spool_snapshot.Part, "_opened", lambda part: opened.append(part.path.name) or real(part)
        )
        second = read_spool(folder, memory=cache)

    assert first.num_rows == 6
    assert second.num_rows == 7
    assert cache.read == 3
    assert {name.split("-")[0] for name in opened} == {"open"}


def test_another_reader_goes_on_with_the_same_folder(folder, cache, tmp_path):
    read_spool(folder, memory=cache)
    other = SegmentCache(tmp_path / "cache")

    assert read_spool(folder, memory=other) == read_spool(folder)
    assert other.read == 0


HARMS = {
    "one-byte": lambda path: path.write_bytes(path.read_bytes().replace(b"0.5", b"0.4", 1)),
    "another-digest": lambda path: path.with_name(path.name + ".sha256").write_text(
        f"{'0' * 64}  {path.name}\n"
    ),
    "no-digest": lambda path: path.with_name(path.name + ".sha256").unlink(),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_segment_that_is_changed_after_it_was_read_is_refused_all_the_same(folder, cache, harm):
    read_spool(folder, memory=cache)
    path = folder / "rows-00000002.jsonl"
    before = path.stat()
    harm(path)
    if path.exists():
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(EvidenceError):
        read_spool(folder, memory=cache)


@pytest.mark.parametrize("name", ["rows-00000002.parquet", "rows-00000002.json"])
@pytest.mark.parametrize("content", [b"", b"{}", None], ids=["empty", "other", "gone"])
def test_what_is_kept_and_damaged_is_read_anew(folder, cache, tmp_path, name, content):
    read_spool(folder, memory=cache)
    path = tmp_path / "cache" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)

    assert read_spool(folder, memory=cache) == read_spool(folder)
    assert cache.read == 4


def test_where_nothing_can_be_kept_it_is_read_as_ever(folder, tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = SegmentCache(tmp_path / "file")

    assert read_spool(folder, memory=cache) == read_spool(folder)


STEPS = st.lists(
    st.sampled_from(["row", "shadow row", "begin", "shed", "close", "look"]), max_size=25
)


@settings(max_examples=25, deadline=None)
@given(STEPS, st.sampled_from([None, "shadow", "canary"]), st.booleans())
def test_it_is_the_same_as_reading_the_whole(tmp_path_factory, steps, stage, settled):
    base = tmp_path_factory.mktemp("spool")
    cache, folder = SegmentCache(base / "cache"), base / "spool"
    spool = Spool(folder, segment_rows=3, sync_s=0.0)
    try:
        for number, step in enumerate(steps):
            if step == "row":
                spool.append(record(number))
            elif step == "shadow row":
                spool.append(record(number, state=SHADOW))
            elif step == "begin":
                spool.begin(asked(number))
            elif step == "shed":
                gone = record(max(0, number - 2)).request_id
                spool.without_row("shed", f"copy {number}", "full", retract=[gone])
            elif step == "close":
                spool.close()
                spool = Spool(folder, segment_rows=3, sync_s=0.0)
            spool.flush()
            if step == "look":
                found = whole_and_remembered(folder, cache, stage=stage, settled=settled)
                assert found[0] == found[1]
    finally:
        spool.close()
    found = whole_and_remembered(folder, cache, stage=stage, settled=settled)
    assert found[0] == found[1]
