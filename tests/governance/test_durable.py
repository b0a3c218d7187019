"""A new file is there whole or not at all, has one maker, and replaces nothing."""

from __future__ import annotations

import os

import pytest

from specdecode.governance import durable
from specdecode.governance.durable import create_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_it_has_content_and_mode_and_nothing_else_is_left(tmp_path):
    create_file(tmp_path / "a", b"content", mode=0o600)

    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["a"]


def test_a_file_that_is_there_is_untouched(tmp_path):
    (tmp_path / "a").write_bytes(b"first")

    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_what_fails_on_the_way_leaves_no_file(tmp_path, monkeypatch, step):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable.os, step, full)
    with pytest.raises(OSError, match="No space"):
        create_file(tmp_path / "a", b"content")
    assert names(tmp_path) == []


def test_a_leftover_of_a_process_that_died_does_not_matter(tmp_path):
    (tmp_path / f".a.{os.getpid()}.partial").write_bytes(b"half")

    create_file(tmp_path / "a", b"content")

    assert (tmp_path / "a").read_bytes() == b"content"
    assert names(tmp_path) == ["a"]


def test_content_is_synced_before_the_name_appears_and_the_folder_after(tmp_path, monkeypatch):
    steps = []
    real = {"fsync": os.fsync, "link": os.link}
    for name, function in real.items():

        def noted(*arguments, name=name, function=function):
            steps.append(name)
            return function(*arguments)

        monkeypatch.setattr(durable.os, name, noted)
    create_file(tmp_path / "a", b"content")

    assert steps == ["fsync", "link", "fsync"]
