"""A new file of the governance has one maker and replaces nothing."""

from __future__ import annotations

import pytest

from specdecode.governance.durable import create_file


def test_it_has_content_and_mode(tmp_path):
    create_file(tmp_path / "a", b"content", mode=0o600)

    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_untouched(tmp_path):
    (tmp_path / "a").write_bytes(b"first")

    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
