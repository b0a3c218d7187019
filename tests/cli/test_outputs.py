"""Files that cannot be written: one plain message, and nothing on record that is not so."""

from __future__ import annotations

import errno
import json
import os
from importlib import import_module
from pathlib import Path

import pytest

from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.errors import ConfigError
from tests.cli.test_governance import (  # noqa: F401 - fixtures
    LEDGER,
    PLAN,
    plan,
    root,
    seal,
    sealed_verdict,
    verdict,
)

USAGE, FAILED = 2, 1


def lines() -> int:
    return len(Path(LEDGER).read_bytes().splitlines()) if Path(LEDGER).exists() else 0


def plain(outcome, code: int = USAGE) -> bool:
    """Whether a command ended with this code and one line that says why."""
    (line,) = outcome.err.splitlines()
    return outcome.code == code and line.startswith("Error: ")


@pytest.mark.parametrize("taken", ["small.seal.json", "small.anchor.json"])
def test_a_seal_that_cannot_be_written_is_not_put_on_record(seal, root, taken):  # noqa: F811
    (root / "plans" / taken).mkdir()
    assert plain(seal())
    assert lines() == 0


def test_an_approval_that_cannot_be_written_is_not_put_on_record(specdecode, sealed_verdict):  # noqa: F811
    key_id = specdecode("keys", "show", "Ada", "--json").document["key_id"]
    sealed_verdict.with_suffix(f".{key_id}.approval.json").mkdir()
    assert plain(specdecode("approve", sealed_verdict, "--plan", PLAN, "--key", "Ada"))
    assert lines() == 1


OUTPUTS = {
    "ledger anchor": ("ledger", "anchor", "--anchor", "git-tag", "--out", "{}"),
    "plan power": ("plan", "power", PLAN, "--runs", "1", "--svg", "{}"),
    "vault key": ("vault", "key", "{}"),
    "keys new": ("keys", "new", "Eve", "--out", "{}"),
    "plan new": ("plan", "new", "{}", "--answers", "nowhere.yaml"),
}


MAKES_FOLDERS = ("keys new", "plan new")


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (command, place)
        for command in OUTPUTS
        for place in ("file/x.json", "folder", "gone/x.json")
        if place != "gone/x.json" or command not in MAKES_FOLDERS
    ],
)
def test_every_output_that_cannot_be_written_is_told_plainly(
    specdecode,
    sealed_verdict,  # noqa: F811
    command,
    place,
):
    Path("file").write_text("")
    Path("folder").mkdir()
    assert plain(specdecode(*(word.format(place) for word in OUTPUTS[command])))
    assert Path("file").read_text() == ""


def test_a_full_disk_is_told_and_leaves_the_ledger_as_it_was(specdecode, seal, monkeypatch):  # noqa: F811
    assert seal().code == 0
    before = Path(LEDGER).read_bytes()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("specdecode.governance.ledger.os.fsync", full)
    words = ("--stage", "offline", "--what", "a", "--why", "b", "--data-seen", "none")
    command = ("plan", "amend", PLAN, "--key", "Linus", *words, "--impact", "none")
    assert plain(specdecode(*command), FAILED)
    assert "No space left" in json.loads(specdecode(*command, "--json").out)["error"]["message"]
    assert Path(LEDGER).read_bytes() == before


def test_an_error_of_the_system_that_names_no_file_is_not_hidden(specdecode, monkeypatch):
    def broken():
        raise OSError("a fault of ours")

    monkeypatch.setattr(import_module("specdecode.cli.main"), "app", lambda **_: broken())
    with pytest.raises(OSError, match="a fault of ours"):
        specdecode("version")


def test_an_output_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_output(path, b"one")
    write_output(path, b"two")
    assert path.read_bytes() == b"two"
    monkeypatch.setattr("specdecode.durable.os.fsync", _no_room)
    with pytest.raises(ConfigError, match=r"cannot be written \(No space left"):
        write_output(path, b"three")
    assert path.read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def _no_room(_descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_device_is_written_to_and_not_replaced():
    refuse_unwritable(Path(os.devnull))
    write_output(Path(os.devnull), b"x")
    assert not Path(os.devnull).is_file()
