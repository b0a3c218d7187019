"""A small git repository, independent of whoever runs the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def git(root: Path, *arguments: str) -> str:
    """Run git there."""
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def repository(root: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> Path:
    """A repository with one commit of these files."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(root.parent / "no-gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(root.parent / "no-gitconfig"))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@example.org")
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    commit(root)
    return root


def commit(root: Path) -> None:
    """Commit everything."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=all", "--allow-empty")
