"""The whole pipeline in a fresh clone, on a tiny random target. The tests build on one another."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import yaml

from tests.e2e.project import Project, clone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ALL = {
    *("sources", "environment", "target", "draft", "prompts", "validate", "manifest"),
    *("measure", "audit", "decide", "report", "evidence", "track"),
}
ALWAYS = {"sources", "environment"}
GENERATIONS = 8 * 2 * 3  # prompts, sampling settings, arms


def stages_run(output: str) -> set[str]:
    return set(re.findall(r"^Running stage '(\w+)'", output, flags=re.M))


# Found by every interpreter that is started; the one that measures stops itself after five rows,
# so that it cannot come to its end while nobody looks.
STOPS_ITSELF = """
import os, signal, sys, threading, time
from pathlib import Path

def stop():
    rows = Path(".specdecode/spool/rows.jsonl")
    while not rows.exists() or rows.read_bytes().count(b"\\n") < 6:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGSTOP)

if sys.orig_argv[-1] == "pipelines.stages.measure":
    threading.Thread(target=stop, daemon=True).start()
"""


def is_stopped(parent: int) -> bool:
    """Whether a process under this one has been stopped."""
    for child in psutil.Process(parent).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_STOPPED:
                return True
    return False


def interrupt_in_measure(project: Project, folder: Path) -> tuple[int, str, int]:
    """Starts an evaluation, presses Ctrl-C after the fifth row; returns status, output, rows."""
    rows = project.root / ".specdecode/spool/rows.jsonl"
    (folder / "sitecustomize.py").write_text(STOPS_ITSELF)
    with subprocess.Popen(
        [sys.executable, "-m", "pipelines.evaluate"],
        cwd=project.root,
        env=project.environment() | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < deadline:
            if is_stopped(process.pid):
                break
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGCONT)
        output, _ = process.communicate(timeout=300)
    kept = rows.read_bytes().count(b"\n") - 1 if rows.exists() else 0
    return process.returncode, output, kept


@pytest.fixture(scope="module")
def first_run(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Project, str, int]:
    """An evaluation that was interrupted in the middle of measure and started again."""
    status, output, kept = interrupt_in_measure(project, tmp_path_factory.mktemp("stops"))
    assert status == 130, output
    assert "Rows measured so far are kept" in output
    assert 4 <= kept < GENERATIONS  # the row being written may be taken back
    return project, project.evaluate().stdout, kept


def test_an_interrupted_run_goes_on_from_the_rows_it_has(
    first_run: tuple[Project, str, int],
) -> None:
    project, output, kept = first_run

    assert f"Going on after {kept} rows of an earlier run." in output
    rows = pq.read_table(project.root / "data/rows.parquet")
    assert rows.num_rows == GENERATIONS
    assert len(set(rows["request_id"].to_pylist())) == GENERATIONS
    assert not (project.root / ".specdecode/spool/rows.jsonl").exists()


def test_it_ends_with_a_verdict_and_says_where_the_report_is(
    first_run: tuple[Project, str, int],
) -> None:
    project, output, _ = first_run

    verdict = project.json("reports/verdict.json")
    assert verdict["status"] in output
    assert verdict["status"] == "INCONCLUSIVE"  # eight prompts are too few for any claim
    assert str(project.root / "reports/evaluation.html") in output
    assert (project.root / "reports/evaluation.html").stat().st_size > 10_000
    assert list((project.root / "reports/plots").glob("*.png"))


def test_rows_manifest_audit_and_verdict_are_about_the_same_inputs(
    first_run: tuple[Project, str, int],
) -> None:
    project, _, _ = first_run
    manifest = project.json("reports/manifest.json")["manifest_sha256"]

    rows = pq.read_table(project.root / "data/rows.parquet")
    assert set(rows["manifest_sha256"].to_pylist()) == {manifest}
    verdict = project.json("reports/verdict.json")
    assert verdict["manifest_sha256"] == manifest
    assert project.json("reports/audit.json")["rows_sha256"] == verdict["rows_sha256"]
    assert set(project.json("reports/tracking.json")["runs"]) == {
        *("release", "release/offline"),
        *(f"release/offline/{arm}" for arm in project.json("reports/metrics.json")["arms"]),
    }


def test_dvc_shows_the_numbers_and_the_charts(first_run: tuple[Project, str, int]) -> None:
    project, _, _ = first_run
    page = project.home / "charts"

    shown = json.loads(project.dvc("metrics", "show", "--json").stdout)
    project.dvc("plots", "show", "--out", str(page))

    headline = project.json("reports/metrics.json")["headline"]
    assert shown[""]["data"]["reports/metrics.json"]["data"]["headline"] == headline
    charts = (page / "index.html").read_text(encoding="utf-8")
    for title in yaml.safe_load((project.root / "dvc.yaml").read_text())["plots"]:
        assert f'"title": "{next(iter(title))}"' in charts


def test_a_second_run_with_nothing_changed_does_nothing(
    first_run: tuple[Project, str, int],
) -> None:
    project, _, _ = first_run
    lock = (project.root / "dvc.lock").read_bytes()

    again = project.evaluate()

    assert stages_run(again.stdout) == ALWAYS
    assert (project.root / "dvc.lock").read_bytes() == lock


def test_a_new_look_of_the_report_runs_report_and_tracking_only(
    first_run: tuple[Project, str, int],
) -> None:
    project, _, _ = first_run
    manifest = project.json("reports/manifest.json")
    runs = project.json("reports/tracking.json")["runs"]
    style = project.root / "reports/templates/evaluation.css"
    style.write_text(style.read_text() + "\n")

    assert stages_run(project.evaluate().stdout) == ALWAYS | {"report", "track"}

    assert project.json("reports/manifest.json") == manifest
    assert project.json("reports/tracking.json")["runs"] == runs  # refreshed, not doubled


def test_a_new_plan_makes_all_evidence_stale_until_it_is_taken_back(
    first_run: tuple[Project, str, int],
) -> None:
    project, _, _ = first_run
    plan = project.root / "plans/default.yaml"
    sealed = plan.read_text()
    plan.write_text(sealed + "\n")
    project.dvc("repro", "manifest")

    stale = json.loads(project.dvc("status", "--json").stdout)
    plan.write_text(sealed)
    again = project.evaluate()

    assert {"measure", "decide", "report", "track"} <= set(stale)
    assert not {"target", "draft", "prompts", "validate"} & set(stale)
    assert stages_run(again.stdout) <= ALWAYS | {"manifest"}


def test_results_travel_to_a_second_clone_without_being_computed_again(
    first_run: tuple[Project, str, int],
) -> None:
    project, _, _ = first_run
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "results")
    project.python("-m", "pipelines.remote", "push")

    second = clone(project.root.parent / "second", project.home, source=project.root)
    second.python("-m", "pipelines.remote", "pull")
    output = second.evaluate().stdout

    assert stages_run(output) == ALWAYS
    assert second.git("status", "--porcelain").stdout == ""


def test_the_remote_can_be_moved_by_one_variable(first_run: tuple[Project, str, int]) -> None:
    project, _, _ = first_run
    elsewhere = project.root.parent / "elsewhere"
    moved = Project(project.root, project.home, {"SPECDECODE_DVC_REMOTE": str(elsewhere)})

    moved.python("-m", "pipelines.remote", "push")
    assert list(elsewhere.rglob("*"))

    project.python("-m", "pipelines.remote", "push")
    assert "elsewhere" not in (project.root / ".dvc/config.local").read_text()
