"""Digests of code: every change counts, and records of governance itself do not."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, MissingPrerequisiteError
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.subjects import (
    file_sha256,
    present_subjects,
    tree_is_clean,
    tree_sha256,
)
from tests.governance.repositories import commit, git, repository

FILES = {"code/a.py": "a = 1\n", "code/b.py": "b = 1\n", "plans/ledger.jsonl": "", "lock": "x\n"}
LEDGER = ["plans/ledger.jsonl"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    return repository(tmp_path / "repository", monkeypatch, FILES)


def test_a_tree_is_its_files_names_modes_and_contents(root):
    files = {name: ["100644", sha256_hex(FILES[name].encode())] for name in FILES if "code" in name}
    assert tree_sha256(root, "code") == sha256_hex(canonical_bytes(files))


def _edit(root):
    (root / "code/a.py").write_text("a = 2\n")


def _rename(root):
    git(root, "mv", "code/a.py", "code/c.py")


def _add(root):
    (root / "code/c.py").write_text("")
    git(root, "add", "code/c.py")


def _remove(root):
    git(root, "rm", "--quiet", "code/a.py")


def _make_executable(root):
    (root / "code/a.py").chmod(0o755)


def _make_link(root):
    (root / "code/a.py").unlink()
    (root / "code/a.py").symlink_to("b.py")


@pytest.mark.parametrize("change", [_edit, _rename, _add, _remove, _make_executable, _make_link])
def test_every_change_of_code_changes_the_digest_and_dirties_the_tree(root, change):
    before = tree_sha256(root, ".", LEDGER)
    change(root)
    assert tree_sha256(root, ".", LEDGER) != before
    assert not tree_is_clean(root, LEDGER)


def test_a_link_is_not_the_file_it_leads_to(root):
    before = tree_sha256(root, "code/a.py")
    (root / "code/a.py").rename(root / "same.py")
    (root / "code/a.py").symlink_to("../same.py")
    assert tree_sha256(root, "code/a.py") != before


def test_a_submodule_counts_as_its_commit(root):
    found = set()
    for name in ("1" * 40, "2" * 40):
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{name},sub")
        found.add(tree_sha256(root, "sub"))
    assert len(found) == 2


def test_records_of_governance_change_nothing(root):
    before = tree_sha256(root, ".", LEDGER)
    (root / "plans/ledger.jsonl").write_text("{}\n")
    (root / "plans/small.seal.json").write_text("{}\n")
    assert tree_is_clean(root, LEDGER)
    assert not tree_is_clean(root)
    commit(root)
    assert tree_sha256(root, ".", LEDGER) == before


def test_a_file_that_git_does_not_know_dirties_the_tree(root):
    (root / "code/new").mkdir()
    (root / "code/new/c d.py").write_text("")
    assert not tree_is_clean(root)


def test_a_clean_tree_is_clean(root):
    assert tree_is_clean(root)


def test_names_say_how_to_compute_a_digest_again(root):
    found = present_subjects(root, ["tree:code", "lock"], LEDGER)
    assert found == {"tree:code": tree_sha256(root, "code"), "lock": sha256_hex(b"x\n")}


def test_what_is_not_there_is_refused(root, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        file_sha256(root / "none")
    with pytest.raises(ConfigError, match="git tracks no file in none"):
        tree_sha256(root, "none")
    (root / "code/a.py").unlink()
    with pytest.raises(ConfigError, match=r"a\.py"):
        tree_sha256(root, "code")
    with pytest.raises(ConfigError, match="not a git repository"):
        tree_is_clean(tmp_path)


def test_without_git_the_message_says_so(root, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPrerequisiteError, match="git is needed"):
        tree_is_clean(root)
