"""The smoke profile as a stranger runs it: the embedded target, real prompts, a scratch copy."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
import yaml

from tests.e2e.project import Project, clone

pytestmark = [pytest.mark.slow, pytest.mark.real_model, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    folder = tmp_path_factory.mktemp("smoke")
    project = clone(folder / "clone", folder / "home")
    return project, project.evaluate("--profile", "smoke").stdout


def test_it_ends_with_a_verdict_on_the_embedded_model(smoke: tuple[Project, str]) -> None:
    project, output = smoke
    copy = project.root / ".workspaces/smoke"

    rows = pq.read_table(copy / "data/rows.parquet")
    profile = yaml.safe_load((copy / "params.yaml").read_text())
    settings, arms = profile["decoding"]["sampling"], profile["decoding"]["arms"]
    assert rows.num_rows == profile["prompts"]["limit"] * len(settings) * len(arms)
    assert set(rows["profile"].to_pylist()) == {"smoke"}
    assert set(rows["error"].to_pylist()) == {None}
    verdict = Project(copy, project.home).json("reports/verdict.json")
    assert verdict["status"] in ("INCONCLUSIVE", "NO_GO")  # too short a run to say yes
    assert verdict["status"] in output
    assert str(copy / "reports/evaluation.html") in output


def test_no_arm_is_found_biased(smoke: tuple[Project, str]) -> None:
    project, _ = smoke

    audit = Project(project.root / ".workspaces/smoke", project.home).json("reports/audit.json")

    assert set(audit["arms"]) == {"plain", "token", "block"}
    assert "biased" not in {found["verdict"] for found in audit["arms"].values()}


def test_the_clone_itself_stays_as_it_was(smoke: tuple[Project, str]) -> None:
    project, _ = smoke

    assert not (project.root / "data").exists()
    assert not (project.root / "models/target").exists()


def test_its_runs_stand_beside_the_full_ones(smoke: tuple[Project, str]) -> None:
    project, _ = smoke

    assert (project.root / "mlflow.db").is_file()
    assert not (project.root / ".workspaces/smoke/mlflow.db").exists()
