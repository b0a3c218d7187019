"""The bundle that an evaluation ends with, checked as a stranger would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from specdecode.cli.exit_codes import INCONCLUSIVE, TAMPERED
from tests.e2e.conftest import quick_project
from tests.e2e.project import ROOT, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
VERIFIER = ROOT / "specdecode/governance/verifier/verify.py"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose plan was sealed before it was evaluated."""
    project = quick_project(tmp_path_factory.mktemp("sealed"))
    keys = tmp_path_factory.mktemp("keys")
    output = project.python(
        "-m", "specdecode", "keys", "new", "Ada", "--out", str(keys / "ada.pem"), "--json"
    ).stdout
    made = json.loads(output[output.index("{") :])
    (project.root / "plans/signers.yaml").write_text(yaml.safe_dump([made["signer"]]))
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "a plan")
    project.python(
        "-m", "specdecode", "plan", "seal", "plans/default.yaml", "--key", made["file"],
        "--code", "specdecode", "--power", "0.9",
    )  # fmt: skip
    project.evaluate()
    return project


def stranger(bundle: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the verifier alone: no project, no packages, no environment."""
    program = folder / "verify.py"
    shutil.copy(VERIFIER, program)
    return subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(bundle), *arguments],
        cwd=folder, env={}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_bundle_of_a_sealed_evaluation_verifies_without_the_project(
    sealed: Project, tmp_path: Path
) -> None:
    checked = stranger(sealed.root / "reports/evidence/evaluation.zip", tmp_path)

    assert checked.returncode == INCONCLUSIVE, checked.stdout  # eight prompts
    assert "was signed by Ada" in checked.stdout


def test_the_rows_name_the_seal_they_were_measured_under(sealed: Project) -> None:
    line = json.loads((sealed.root / "plans/ledger.jsonl").read_text().splitlines()[-1])

    entries = sealed.json("reports/manifest.json")["entries"]
    assert entries["plan.seal"] == line["body"]["seal_sha256"]


def test_a_row_changed_in_the_bundle_is_seen(sealed: Project, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    with zipfile.ZipFile(sealed.root / "reports/evidence/evaluation.zip") as archive:
        archive.extractall(folder)
    rows = next(folder.glob("rows*.jsonl"))
    before = rows.read_bytes()
    rows.write_bytes(before.replace(b'"block"', b'"plain"', 1))
    assert rows.read_bytes() != before

    checked = stranger(folder, tmp_path)

    assert checked.returncode == TAMPERED
    assert rows.name in checked.stdout


def test_a_plan_changed_after_its_seal_stops_before_anything_is_measured(sealed: Project) -> None:
    path = sealed.root / "plans/default.yaml"
    before, rows = path.read_text(), (sealed.root / "data/rows.parquet").read_bytes()
    path.write_text(before.replace("threshold: 1.1\n", "threshold: 1.0\n", 1))
    assert path.read_text() != before

    done = sealed.evaluate(check=False)
    path.write_text(before)

    assert done.returncode != 0
    assert "not what was sealed" in done.stdout
    assert (sealed.root / "data/rows.parquet").read_bytes() == rows
