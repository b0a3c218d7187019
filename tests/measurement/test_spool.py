from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from specdecode.errors import EvidenceError, UserError
from specdecode.measurement import spool as spool_module
from specdecode.measurement.records import read_records
from specdecode.measurement.spool import RowSpool
from tests.measurement.factories import MANIFEST, OTHER_MANIFEST, record

ROOT = Path(__file__).parents[2]


def test_rows_are_there_for_the_next_run_and_finish_as_parquet(tmp_path):
    rows = [record("a"), record("b"), record("a", arm="block")]
    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(rows[0])
        spool.append(rows[1])

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.done == {("a", "plain", "greedy"), ("b", "plain", "greedy")}
        spool.append(rows[2])
        spool.finish(tmp_path / "rows.parquet")

    assert read_records(tmp_path / "rows.parquet") == rows
    assert not (tmp_path / "rows.jsonl").exists()
    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.done == set()


@pytest.mark.parametrize("cut", [1, 10, 300])
def test_a_line_cut_off_by_a_crash_is_dropped_and_the_rest_kept(tmp_path, cut):
    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        spool.append(record("b"))
    content = spool.path.read_bytes()
    spool.path.write_bytes(content[:-cut])

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.done == {("a", "plain", "greedy")}
        spool.append(record("b"))
        assert spool.records() == [record("a"), record("b")]


def test_a_crash_inside_the_header_starts_over(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b'{"schema": "specdec')

    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert len(spool.done) == 1


def test_rows_of_other_inputs_are_kept_aside_and_never_deleted(tmp_path):
    with RowSpool(tmp_path, OTHER_MANIFEST) as spool:
        spool.append(record("a", manifest_sha256=OTHER_MANIFEST))
        content = spool.path.read_bytes()

    for _ in range(2):
        with RowSpool(tmp_path, MANIFEST) as spool:
            assert spool.done == set()
            kept = spool.kept_aside
        with RowSpool(tmp_path, OTHER_MANIFEST):
            pass

    assert kept is not None
    first = tmp_path / f"rows.{OTHER_MANIFEST[:12]}.1.jsonl"
    assert first.read_bytes() == content
    assert (tmp_path / f"rows.{OTHER_MANIFEST[:12]}.2.jsonl").exists()


def test_a_spool_without_a_readable_header_is_kept_aside(tmp_path):
    (tmp_path / "rows.jsonl").write_text("[1, 2]\n")

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.kept_aside is not None
        assert spool.kept_aside.read_text() == "[1, 2]\n"


def test_a_damaged_line_in_the_middle_is_reported_with_its_number(tmp_path):
    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        spool.append(record("b"))
    lines = spool.path.read_text().split("\n")
    lines[1] = lines[1].replace('"prompt_id": "a"', '"prompt_id": ""')
    spool.path.write_text("\n".join(lines))

    with pytest.raises(EvidenceError, match=r"rows\.jsonl, line 2: .*prompt_id"):
        RowSpool(tmp_path, MANIFEST)
    with pytest.raises(EvidenceError):  # and the lock was let go
        RowSpool(tmp_path, MANIFEST)


def test_the_same_row_is_not_written_twice(tmp_path):
    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        with pytest.raises(EvidenceError, match="a/greedy/plain: already measured"):
            spool.append(record("a", quality=0.0))
        assert spool.records() == [record("a")]


def test_a_row_of_another_manifest_is_refused(tmp_path):
    with RowSpool(tmp_path, MANIFEST) as spool:
        with pytest.raises(EvidenceError, match="row of manifest bbbb"):
            spool.append(record("a", manifest_sha256=OTHER_MANIFEST))
        assert spool.done == set()


def test_a_second_writer_is_told_to_wait(tmp_path):
    with (
        RowSpool(tmp_path, MANIFEST),
        pytest.raises(UserError, match="another process is measuring"),
    ):
        RowSpool(tmp_path, MANIFEST)

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.done == set()


def test_a_closed_spool_takes_no_rows(tmp_path):
    spool = RowSpool(tmp_path, MANIFEST)
    spool.close()
    spool.close()

    with pytest.raises(EvidenceError, match="closed"):
        spool.append(record("a"))


def test_a_disk_that_fills_in_the_middle_of_a_row_costs_only_that_row(tmp_path, monkeypatch):
    real = os.pwrite

    def half_then_full(handle, data, offset):
        if b'"prompt_id": "b"' in data:
            return real(handle, data[:50], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        monkeypatch.setattr(spool_module.os, "pwrite", half_then_full)
        with pytest.raises(OSError, match="No space left") as caught:
            spool.append(record("b"))
        monkeypatch.undo()
        assert caught.value.errno == errno.ENOSPC
        assert spool.done == {("a", "plain", "greedy")}
        assert spool.records() == [record("a")]
        spool.append(record("b"))

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.records() == [record("a"), record("b")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_really_full_device_raises_oserror_and_nothing_else(tmp_path):
    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        kept, spool._file = spool._file, os.open("/dev/full", os.O_WRONLY)
        with pytest.raises(OSError, match="No space left"):
            spool.append(record("b"))
        os.close(spool._file)
        spool._file = kept
        spool.append(record("b"))
        assert spool.records() == [record("a"), record("b")]


def test_ctrl_c_while_syncing_leaves_no_half_row(tmp_path, monkeypatch):
    def interrupted(_handle):
        raise KeyboardInterrupt

    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        monkeypatch.setattr(spool_module.os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            spool.append(record("b"))
        monkeypatch.undo()
        assert spool.records() == [record("a")]


def test_a_parquet_that_cannot_be_written_leaves_the_spool(tmp_path):
    target = tmp_path / "folder.parquet"
    target.mkdir()
    with RowSpool(tmp_path, MANIFEST) as spool:
        spool.append(record("a"))
        with pytest.raises(OSError):
            spool.finish(target)

    with RowSpool(tmp_path, MANIFEST) as spool:
        assert spool.records() == [record("a")]


def test_a_killed_process_loses_no_row_it_reported(tmp_path):
    """SIGKILL at a random moment: every row said to be written is there, none is broken."""
    program = textwrap.dedent("""
        import itertools, sys
        from specdecode.measurement.spool import RowSpool
        from tests.measurement.factories import MANIFEST, record
        spool = RowSpool(sys.argv[1], MANIFEST)
        for number in itertools.count():
            spool.append(record(f"p{number}"))
            print(number, flush=True)
    """)
    command = [sys.executable, "-c", program, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    reported = [int(process.stdout.readline()) for _ in range(20)]
    time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    reported += [int(line) for line in rest.splitlines()]

    with RowSpool(tmp_path, MANIFEST) as spool:
        found = [r.prompt_id for r in spool.records()]

    assert process.returncode == -signal.SIGKILL
    assert found[: len(reported)] == [f"p{number}" for number in reported]
    assert len(found) <= len(reported) + 1
