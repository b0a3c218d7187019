"""The flow `version-inputs` on a small DVC project, with a folder as its remote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from prefect.logging import disable_run_logger

from pipelines import repro
from pipelines.flows import version_inputs as flow
from pipelines.tracking.datasets import DATASETS
from specdecode.errors import MissingPrerequisiteError

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = {
    "prompts.compiled": "1" * 64,
    "target.weights": "2" * 64,
    "target.tokenizer": "3" * 64,
    "target.chat_template": "4" * 64,
    "target.config": "5" * 64,
    "draft.weights": "6" * 64,
}
MANIFEST = {"manifest_sha256": "a" * 64, "entries": ENTRIES}
WRITE = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.parent.mkdir(parents=True, exist_ok=True); p.write_text(sys.argv[2])"  # noqa: E501
NEVER = "raise SystemExit('measured')"


def command(code: str, *arguments: str) -> str:
    return " ".join([sys.executable, "-c", json.dumps(code), *map(_quoted, arguments)])


def _quoted(text: str) -> str:
    return "'" + text + "'"


def dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*repro.dvc(), *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stages that make inputs, and one that must not run."""
    root = tmp_path / "project"
    root.mkdir()
    manifest = json.dumps(MANIFEST)
    stages: dict[str, Any] = {
        "target": {
            "cmd": command(WRITE, "models/target", "weights"),
            "outs": ["models/target"],
        },
        "manifest": {
            "cmd": command(WRITE, "reports/manifest.json", manifest),
            "deps": ["models/target"],
            "outs": [{"reports/manifest.json": {"cache": False}}],
        },
        "measure": {
            "cmd": command(NEVER),
            "deps": ["reports/manifest.json"],
            "outs": ["data/rows.parquet"],
        },
    }
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (root / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    for name in (flow.remote.VARIABLE, "MLFLOW_TRACKING_URI", "SPECDECODE_MLFLOW_ARTIFACTS"):
        monkeypatch.delenv(name, raising=False)
    dvc(root, "init", "--quiet", "--no-scm")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The flow without a server: its body, and the pages it would have shown."""
    found: list[str] = []
    for name in ("reproduce", "send", "trace"):
        monkeypatch.setattr(flow, name, getattr(flow, name).fn)
    monkeypatch.setattr(flow, "create_markdown_artifact", lambda page, **_: found.append(page))
    return found


def version(**words: Any) -> dict[str, Any]:
    with disable_run_logger():
        return flow.version_inputs.fn(**words)


def test_inputs_are_made_sent_named_and_traced_and_a_second_time_nothing_is_new(
    project: Path, pages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = tmp_path / "remote"
    monkeypatch.setenv(flow.remote.VARIABLE, str(remote))

    first = version()
    sent = sorted(path for path in remote.rglob("*") if path.is_file())
    again = version()

    assert first["manifest_sha256"] == MANIFEST["manifest_sha256"]
    assert first["remote"] == str(remote)
    assert [path.read_text() for path in sent] == ["weights"]
    assert sorted(path for path in remote.rglob("*") if path.is_file()) == sent
    assert again == first
    assert pages[0].startswith("# " + "a" * 64)
    assert not (project / "data/rows.parquet").exists()

    client = MlflowClient(tracking_uri=f"sqlite:///{project}/mlflow.db")
    experiment = client.get_experiment_by_name("specdecode")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == first["mlflow_run"]
    assert run.data.tags["inputs.manifest_sha256"] == "a" * 64
    assert run.data.tags["sha256.target.weights"] == "2" * 64
    assert run.data.tags["dvc.remote"] == str(remote)
    inputs = {given.dataset.name: given for given in run.inputs.dataset_inputs}
    assert set(inputs) == set(DATASETS)
    weights = inputs["target weights"]
    assert {tag.key: tag.value for tag in weights.tags}["sha256"] == "2" * 64
    assert weights.dataset.source == f"{remote}#models/target"


def test_without_a_remote_it_says_so_before_it_makes_anything(
    project: Path, pages: list[str]
) -> None:
    with pytest.raises(MissingPrerequisiteError, match="SPECDECODE_DVC_REMOTE") as refused:
        version()

    assert "push=false" in str(refused.value)
    assert not (project / "models/target").exists()
    assert pages == []


def test_a_remote_that_takes_nothing_is_a_failure_and_not_a_version(
    project: Path, pages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "remote").write_text("a file, where a folder would be")
    monkeypatch.setenv(flow.remote.VARIABLE, str(tmp_path / "remote"))

    with pytest.raises(RuntimeError, match="did not all reach"):
        version()

    assert (project / "models/target").exists()
    assert pages == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/path", "s3://bucket/path"),
        ("/srv/dvc", "/srv/dvc"),
        ("~/.local/share/dvc-store", "~/.local/share/dvc-store"),
        ("ssh://me@host:2222/path", "ssh://me@host:2222/path"),
        ("https://me:se:c@ret@host/path", "https://me@host/path"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert flow.remote.without_password(url) == shown


def test_a_stage_is_due_until_it_has_run(project: Path) -> None:
    assert repro.is_due(project, "target")
    assert repro.run(project, stages=["target"]) == 0
    assert not repro.is_due(project, "target")
    with pytest.raises(RuntimeError, match="dvc status no-such-stage"):
        repro.is_due(project, "no-such-stage")


def test_the_inputs_of_this_project_are_all_stages_before_the_measurement() -> None:
    assert flow.input_stages(ROOT) == [
        stage for stage in repro.stages_in_order(ROOT) if stage in EXPECTED
    ]
    assert set(flow.input_stages(ROOT)) == EXPECTED


EXPECTED = {"sources", "environment", "target", "draft", "prompts", "validate", "manifest"}
