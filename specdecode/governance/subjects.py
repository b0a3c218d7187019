"""What a seal fixes beside the plan: files, and the code tree, each as one SHA-256.

Subjects are named so that anyone can compute them again: a file by its path from the root of the
repository, a tree by "tree:" and the path it begins at.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from pathlib import Path

from specdecode.errors import ConfigError
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.git import git

TREE = "tree:"
RECORDS = ("*.seal.json", "*.anchor.json", "*.approval.json")
"""Files that governance itself writes: no part of the code, and written after it was sealed."""

_GITLINK = "160000"


def present_subjects(
    root: Path, names: Collection[str], exclude: Collection[str] = ()
) -> Mapping[str, str]:
    """SHA-256 of what these names stand for now.

    Args:
        root: the repository.
        names: paths of files, or "tree:" and a path.
        exclude: files that no tree includes, such as the ledger, relative to the root.

    Raises:
        ConfigError: something is not there.
    """
    return {
        name: tree_sha256(root, name.removeprefix(TREE), exclude)
        if name.startswith(TREE)
        else file_sha256(root / name)
        for name in names
    }


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        ConfigError: there is no such file.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error


def tree_sha256(root: Path, path: str, exclude: Collection[str] = ()) -> str:
    """SHA-256 over every file git tracks below `path`: its name, mode and content.

    Contents are read from the working tree and hashed with SHA-256, because git's own object names
    are SHA-1 and its index does not see an edit before `git add`.

    Args:
        root: the repository.
        path: file or folder, relative to the root; "." for all.
        exclude: tracked files that are left out beside `RECORDS`, relative to the root.

    Raises:
        ConfigError: not a repository, or git tracks nothing there.
    """
    listed = git(root, "ls-files", "-s", "-z", "--", path).split(b"\0")[:-1]
    files = {}
    for line in listed:
        info, _, raw = line.partition(b"\t")
        name = os.fsdecode(raw)
        mode, identifier, _ = info.decode("ascii").split(" ")
        if not _is_record(name, exclude):
            files[name] = _content(root / name, mode, identifier)
    if not files:
        raise ConfigError(f"git tracks no file in {path}: there is nothing to seal")
    return sha256_hex(canonical_bytes(files))


def tree_is_clean(root: Path, exclude: Collection[str] = ()) -> bool:
    """Whether git sees no change and no new file, but for `exclude` and `RECORDS`."""
    changed = git(root, "status", "--porcelain=v1", "-z", "-uall", "--no-renames").split(b"\0")[:-1]
    return all(_is_record(os.fsdecode(entry[3:]), exclude) for entry in changed)


def _is_record(name: str, exclude: Collection[str]) -> bool:
    return name in exclude or any(fnmatch(name, pattern) for pattern in RECORDS)


def _content(path: Path, mode: str, identifier: str) -> list[str]:
    if mode == _GITLINK:
        return [mode, identifier]
    if path.is_symlink():
        return ["120000", sha256_hex(os.fsencode(path.readlink()))]
    return ["100755" if os.access(path, os.X_OK) else "100644", file_sha256(path)]
