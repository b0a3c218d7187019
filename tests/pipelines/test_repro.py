"""`dvc repro` through pipelines.repro, on a pipeline of three shell commands."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from pipelines import repro

STAGES = {
    "late": {"cmd": "cat b.txt > c.txt", "deps": ["b.txt"], "outs": ["c.txt"]},
    "early": {"cmd": "cat a.txt > b.txt", "deps": ["a.txt"], "outs": ["b.txt"]},
    "timed": {
        "cmd": f"{sys.executable} -c 'import time; print(time.time_ns())' > t.txt",
        "deps": ["b.txt"],
        "outs": [{"t.txt": {"persist": True}}],
    },
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    root = tmp_path / "pipeline"
    root.mkdir()
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": STAGES}, sort_keys=False))
    (root / "a.txt").write_text("one")
    subprocess.run([*repro.dvc(), "init", "-q", "--no-scm"], cwd=root, check=True)
    return root


def test_stages_come_after_those_they_read_from(workspace: Path) -> None:
    assert repro.stages_in_order(workspace) == ["early", "late", "timed"]


def test_stages_that_wait_for_one_another_are_refused(tmp_path: Path) -> None:
    stages = {n: {"cmd": "x", "deps": [d], "outs": [n]} for n, d in (("a", "b"), ("b", "a"))}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))

    with pytest.raises(ValueError, match="wait for one another"):
        repro.stages_in_order(tmp_path)


def test_a_timing_is_taken_anew_and_never_restored(workspace: Path) -> None:
    assert repro.run(workspace) == 0
    first = (workspace / "t.txt").read_text()
    assert repro.run(workspace) == 0
    assert (workspace / "t.txt").read_text() == first  # nothing changed, nothing ran

    (workspace / "dvc.lock").unlink()
    assert repro.run(workspace) == 0

    assert (workspace / "t.txt").read_text() != first


def test_output_can_be_taken_line_by_line(workspace: Path) -> None:
    lines: list[str] = []

    assert repro.run(workspace, stages=["early"], on_line=lines.append) == 0

    assert any("Running stage 'early'" in line for line in lines)
    assert not (workspace / "c.txt").exists()


def test_a_failing_stage_is_a_failing_run(workspace: Path) -> None:
    (workspace / "a.txt").unlink()

    assert repro.run(workspace, on_line=lambda line: None) != 0


def _hold(workspace: Path, log: Path, name: str) -> None:
    with repro.alone_in(workspace):
        with log.open("a") as file:
            file.write(f"{name} in\n")
        time.sleep(0.3)
        with log.open("a") as file:
            file.write(f"{name} out\n")


def test_a_second_evaluation_waits_for_the_first(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_hold, args=(workspace, log, name)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join(60)

    lines = log.read_text().split("\n")[:4]
    assert [process.exitcode for process in both] == [0, 0]
    assert lines in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])


def test_files_held_by_a_living_process_are_told_from_those_of_a_dead_one(workspace: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path = workspace / ".dvc/tmp/rwlock"
    path.parent.mkdir(parents=True, exist_ok=True)

    path.write_text(f'{{"write": {{"t.txt": {{"pid": {dead.pid}, "cmd": "dvc"}}}}}}')
    assert not repro._held_by_another(workspace)
    path.write_text(f'{{"read": {{"t.txt": [{{"pid": {os.getpid()}, "cmd": "dvc"}}]}}}}')
    assert repro._held_by_another(workspace)


def test_a_run_refused_by_one_that_ends_meanwhile_is_tried_again(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = iter([True, False])  # before the refused call; before the next one
    monkeypatch.setattr(repro, "_held_by_another", lambda workspace: next(held))
    statuses = iter([255, 0])
    monkeypatch.setattr(repro, "_call", lambda *arguments: next(statuses))
    monkeypatch.setattr(repro, "_pause", lambda: None)

    assert repro.run(workspace) == 0


def test_a_failure_with_nobody_about_is_not_tried_again(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = iter([255])
    monkeypatch.setattr(repro, "_call", lambda *arguments: next(statuses))

    assert repro.run(workspace) == 255


ENDED = """
import sys
from pathlib import Path
from pipelines import evaluate, repro
command = [sys.executable, "-c", sys.argv[1]]
evaluate.evaluate = lambda profile, force: repro._call(command, Path.cwd(), {}, None)
sys.exit(evaluate.main([]))
"""
PARENT = """
import subprocess, sys
stage = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
subprocess.run([sys.executable, "-c", stage])
"""


def test_sigterm_ends_the_stage_under_dvc_too() -> None:
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", ENDED, PARENT],
        cwd=root,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        stage = int(process.stdout.readline())

        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=120)

    assert process.returncode == 143
    assert "ended from outside" in told
    assert "Traceback" not in told
    until = time.monotonic() + 60  # what was told to end is not gone at once
    while _runs(stage) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(stage)


def _runs(pid: int) -> bool:
    """Where nobody collects orphans, what is left of one that has ended is a zombie."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
