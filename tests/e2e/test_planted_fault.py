"""A fault planted by a parameter ends the pipeline in NO_GO, and nothing hides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import quick_project
from tests.e2e.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
FAULT = "accepts-by-next-row"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = quick_project(tmp_path_factory.mktemp("planted"))
    project.params(decoding__planted_fault=FAULT)
    project.dvc("repro", "report", "evidence")
    return project


def test_the_verdict_is_no_go_and_names_fault_and_arm(planted: Project) -> None:
    """Eight prompts are too few for the audit to see it; it fails all the same."""
    verdict = planted.json("reports/verdict.json")

    assert verdict["status"] == "NO_GO"
    told = [reason for reason in verdict["reasons"] if FAULT in reason]
    assert {arm for arm in ("token", "block") for reason in told if f"arm {arm} " in reason} == {
        "token",
        "block",
    }


def test_the_audit_tells_what_was_planted_and_spares_the_control(planted: Project) -> None:
    audit = planted.json("reports/audit.json")

    assert audit["planted_faults"] == {"token": FAULT, "block": FAULT}
    assert audit["arms"]["plain"]["verdict"] != "biased"


def test_the_report_says_that_it_was_planted(planted: Project) -> None:
    page = Path(planted.root, "reports/evaluation.html").read_text(encoding="utf-8")

    assert "Planted on purpose" in page
    assert FAULT in page


def test_a_fault_that_does_not_exist_stops_before_anything_runs(planted: Project) -> None:
    before = (planted.root / "params.yaml").read_text(encoding="utf-8")
    planted.params(decoding__planted_fault="no-such-fault")
    try:
        done = planted.python("-m", "pipelines.stages.measure", check=False)
    finally:
        (planted.root / "params.yaml").write_text(before, encoding="utf-8")

    assert done.returncode == 2
    assert "no-such-fault" in done.stdout or "no such fault" in done.stdout
    assert "residual-is-target" in done.stdout
