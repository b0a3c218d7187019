"""A file is there whole or not at all, and nothing else is left in its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdecode import durable
from specdecode.durable import sync_folder, written_whole

BOTH = pytest.mark.parametrize("replace", [True, False])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, content, **options):
    with written_whole(path, **options) as file:
        file.write(content)


@BOTH
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_it_has_content_and_exactly_the_mode(tmp_path, replace, mode, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "a", b"content", mode=mode, replace=replace)
    finally:
        os.umask(before)

    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode
    assert names(tmp_path) == ["a"]


def test_a_file_takes_the_place_of_another_and_its_mode_is_the_new_one(tmp_path):
    write(tmp_path / "a", b"first", mode=0o600)
    write(tmp_path / "a", b"second")

    assert (tmp_path / "a").read_bytes() == b"second"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    assert names(tmp_path) == ["a"]


def test_without_replace_a_file_that_is_there_is_untouched(tmp_path):
    (tmp_path / "a").write_bytes(b"first")

    with pytest.raises(FileExistsError):
        write(tmp_path / "a", b"second", replace=False)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_until_the_end_the_content_is_private_and_has_another_name(tmp_path):
    (tmp_path / "a").write_bytes(b"first")

    with written_whole(tmp_path / "a") as file:
        file.write(b"second")
        file.flush()
        [partial] = set(names(tmp_path)) - {"a"}
        assert (tmp_path / "a").read_bytes() == b"first"
        assert (tmp_path / partial).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("step", "replace"),
    [(step, replace) for replace in (True, False) for step in ("fsync", "fchmod")]
    + [("replace", True), ("link", False)],
)
def test_what_fails_on_the_way_leaves_all_as_it_was(tmp_path, monkeypatch, step, replace):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    if replace:
        (tmp_path / "a").write_bytes(b"first")
    before = names(tmp_path)
    monkeypatch.setattr(Path if step == "replace" else durable.os, step, full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "a", b"second", replace=replace)

    assert names(tmp_path) == before
    if replace:
        assert (tmp_path / "a").read_bytes() == b"first"


@BOTH
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_writer_that_fails_leaves_no_file(tmp_path, replace, error):
    with pytest.raises(error), written_whole(tmp_path / "a", replace=replace) as file:
        file.write(b"half")
        raise error

    assert names(tmp_path) == []


def test_a_leftover_of_a_process_that_was_killed_does_not_matter(tmp_path):
    left = tmp_path / ".a.x.partial"
    left.write_bytes(b"half")
    write(tmp_path / "a", b"content", replace=False)

    assert (tmp_path / "a").read_bytes() == b"content"
    assert left.read_bytes() == b"half"


@pytest.mark.parametrize(("replace", "named"), [(True, "replace"), (False, "link")])
def test_content_is_synced_before_the_name_appears_and_the_folder_after(
    tmp_path, monkeypatch, replace, named
):
    steps = []

    def noting(where, name):
        real = getattr(where, name)

        def noted(*arguments):
            steps.append(name)
            return real(*arguments)

        monkeypatch.setattr(where, name, noted)

    noting(durable.os, "fsync")
    noting(durable.os, "link")
    noting(Path, "replace")
    write(tmp_path / "a", b"content", replace=replace)

    assert steps == ["fsync", named, "fsync"]


def test_a_folder_that_is_not_there_cannot_be_synced(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "absent")
