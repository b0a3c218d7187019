"""A lock has one holder, and is free when that one lets go or ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specdecode.errors import UserError
from specdecode.measurement import lock as lock_module
from specdecode.measurement.lock import FileLock

HOLD = """
import sys
from pathlib import Path
from specdecode.measurement.lock import FileLock

lock = FileLock(Path(sys.argv[1]), "taken")
print("held", flush=True)
sys.stdin.read()
"""


def open_files():
    return len(list(Path("/dev/fd").iterdir()))


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path):
    first = FileLock(tmp_path / "lock", "")
    with pytest.raises(UserError, match=r"^someone has it$"):
        FileLock(tmp_path / "lock", "someone has it")
    assert first.held

    first.release()
    first.release()

    assert not first.held
    second = FileLock(tmp_path / "lock", "")
    assert second.held
    second.release()
    assert (tmp_path / "lock").read_bytes() == b""


def test_releasing_twice_closes_nobody_elses_file(tmp_path):
    lock = FileLock(tmp_path / "lock", "")
    lock.release()
    with (tmp_path / "other").open("wb") as other:  # which gets the number that became free
        lock.release()
        other.write(b"content")

    assert (tmp_path / "other").read_bytes() == b"content"


def test_another_process_keeps_it_and_a_killed_one_does_not(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="taken"):
            FileLock(tmp_path / "lock", "taken")
        holder.kill()

    FileLock(tmp_path / "lock", "taken").release()


@pytest.mark.parametrize(
    ("error", "seen"),
    [(BlockingIOError, UserError), (OSError, OSError), (KeyboardInterrupt, KeyboardInterrupt)],
)
def test_a_lock_that_cannot_be_had_leaves_no_file_open(tmp_path, monkeypatch, error, seen):
    def fail(*_arguments):
        raise error

    monkeypatch.setattr(lock_module.fcntl, "flock", fail)
    before = open_files()
    with pytest.raises(seen):
        FileLock(tmp_path / "lock", "taken")
    assert open_files() == before
