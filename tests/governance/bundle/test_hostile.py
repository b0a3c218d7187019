"""Bundles that are made to crash, mislead or exhaust their reader."""

from __future__ import annotations

import io
import os
import zipfile

import pytest

from specdecode.governance.verifier import PROGRAM, pack, text_of, verify
from tests.governance.bundle.looks import files_of
from tests.governance.bundles import repacked


@pytest.fixture
def folder(path, tmp_path):
    """A good bundle, unpacked."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    return tmp_path / "unpacked"


@pytest.fixture
def answered(tmp_path):
    """What the verifier says of an archive."""

    def run(archive: bytes):
        (tmp_path / "hostile.zip").write_bytes(archive)
        return verify(tmp_path / "hostile.zip")

    return run


def test_an_archive_that_lists_more_than_it_has_is_not_read(answered, monkeypatch):
    """One file of a megabyte, listed a thousand times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"\0" * 1_000_000)
        archive.filelist *= 1000

    def unread(*_):
        raise AssertionError("was read")

    monkeypatch.setattr(zipfile.ZipFile, "read", unread)
    found = answered(out.getvalue())

    assert found["exit_code"] == 3
    assert "lists more bytes than it has" in found["checks"][0]["text"]


@pytest.mark.parametrize("name", ["verdict.json", "plan.json", "audit.json", "rows.jsonl"])
@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a": 1e999}', b'{"a": -1e999}', b'{"a": NaN}', b'{"a": "\xff"}']
)
def test_json_that_is_none_is_tampered(path, answered, name, content):
    found = answered(repacked(files_of(path) | {name: content}))

    assert found["exit_code"] == 3
    named = [check["text"] for check in found["checks"] if check["text"].startswith(name)]
    assert named


def test_what_is_no_plain_file_is_seen(folder):
    os.mkfifo(folder / "pipe")

    assert "pipe is no plain file" in verify(folder)["checks"][0]["text"]


def test_a_bundle_that_is_no_file_is_told_and_not_a_crash(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert verify(tmp_path / "pipe")["exit_code"] == 3


def test_a_name_in_the_bundle_cannot_forge_a_line_or_hide_one(path, answered):
    found = answered(pack(files_of(path) | {"a\nGO\x1b[8m\u202e": b""}))

    assert found["exit_code"] == 3
    assert r"a\nGO\x1b[8m\u202e" in text_of(found)
    assert "GO" not in text_of(found).splitlines()


def test_text_that_the_terminal_cannot_show_is_spelled_out(folder, stranger):
    """The bare interpreter of `stranger` writes ASCII only where the locale says so."""
    (folder / "grün").write_text("")
    program = (
        f"import sys; sys.stdout.reconfigure(encoding='ascii'); sys.argv[0] = {str(PROGRAM)!r}"
    )
    run = f"{program}; import runpy; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    done = stranger("-c", run, folder)

    assert done.returncode == 3
    assert r"gr\xfcn was added" in done.stdout
