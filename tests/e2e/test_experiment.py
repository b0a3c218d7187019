"""`dvc exp run -S` in a fresh clone: verdict and numbers before and after, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FAULT = "decoding.planted_fault"


def test_an_experiment_tells_verdict_numbers_and_parameter(
    project: Project, tmp_path: Path
) -> None:
    project.dvc("repro")
    project.git("add", "-A")
    project.git("commit", "-qm", "measured")

    ran = project.dvc("exp", "run", "-S", f"{FAULT}=accepts-by-ratio", "--name", "broken", "decide")

    assert "Stage 'target' didn't change, skipping" in ran.stdout
    metrics = json.loads(project.dvc("metrics", "diff", "--json").stdout)["reports/metrics.json"]
    assert metrics["verdict"]["old"] == "INCONCLUSIVE"
    assert metrics["verdict"]["new"] == "NO_GO" == project.json("reports/verdict.json")["status"]
    assert metrics["headline.block.speed_ratio"]["new"] > 0
    changed = json.loads(project.dvc("params", "diff", "--json").stdout)["params.yaml"]
    assert changed == {FAULT: {"old": "none", "new": "accepts-by-ratio"}}
    shown = project.dvc("exp", "show", "--no-pager", "--only-changed", "--csv").stdout
    assert "broken" in shown
    assert "NO_GO" in shown
    project.dvc("plots", "diff", "--out", str(tmp_path / "plots"))
    assert (tmp_path / "plots/index.html").is_file()
    project.git("checkout", "--", ".")
    project.dvc("checkout")
    project.dvc("exp", "apply", "broken")
    assert project.json("reports/metrics.json")["verdict"] == "NO_GO"
    project.dvc("exp", "remove", "broken")
    assert "broken" not in project.dvc("exp", "list").stdout
