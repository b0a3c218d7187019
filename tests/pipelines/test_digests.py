from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pipelines import digests


def test_a_digest_is_the_sha256_of_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"abc")

    found = digests.sha256_files([file], memory=tmp_path / "memory.json")

    assert found == {"weights.bin": hashlib.sha256(b"abc").hexdigest()}


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, memory = tmp_path / "weights.bin", tmp_path / "memory.json"
    file.write_bytes(b"abc")
    first = digests.sha256_files([file], memory)

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(digests, "sha256_file", refuse)

    assert digests.sha256_files([file], memory) == first


def test_an_edit_that_restores_size_and_date_is_seen(tmp_path: Path) -> None:
    file, memory = tmp_path / "weights.bin", tmp_path / "memory.json"
    file.write_bytes(b"abc")
    before = digests.sha256_files([file], memory)
    stat = file.stat()

    while file.stat().st_ctime_ns == stat.st_ctime_ns:  # a file system's clock has ticks
        file.write_bytes(b"abd")
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert digests.sha256_files([file], memory) != before


def test_a_damaged_memory_is_forgotten(tmp_path: Path) -> None:
    file, memory = tmp_path / "weights.bin", tmp_path / "memory.json"
    file.write_bytes(b"abc")
    memory.write_text("{not json")

    assert digests.sha256_files([file], memory)["weights.bin"] == hashlib.sha256(b"abc").hexdigest()


def test_a_tree_digest_changes_with_content_and_name_but_not_with_compiled_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    before = digests.sha256_tree(tmp_path, (".py",))

    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").write_text("junk")
    (tmp_path / "notes.txt").write_text("not code")
    assert digests.sha256_tree(tmp_path, (".py",)) == before

    (tmp_path / "a.py").write_text("x = 2\n")
    changed = digests.sha256_tree(tmp_path, (".py",))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    renamed = digests.sha256_tree(tmp_path, (".py",))
    assert len({before, changed, renamed}) == 3


def test_key_order_does_not_change_a_json_digest() -> None:
    assert digests.sha256_json({"a": 1, "b": [1, 2]}) == digests.sha256_json({"b": [1, 2], "a": 1})
    assert digests.sha256_json({"a": 1}) != digests.sha256_json({"a": 2})
