from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.parameters import merged
from pipelines.workspace import refresh, workspace_of
from specdecode.errors import ConfigError, MissingPrerequisiteError

ROOT = Path(__file__).resolve().parents[2]
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
PARAMS: dict[str, Any] = {
    **SHIPPED,
    "target": {**SHIPPED["target"], "source": "own/model"},
    "profiles": {"full": {}, "smoke": {"prompts": {"limit": 16}}},
}
STAGES = {
    "stages": {
        "measure": {
            "cmd": "x",
            "outs": [{"data/rows.parquet": {"persist": True}}, "models/target"],
        },
        "decide": {"cmd": "y", "metrics": [{"reports/metrics.json": {"cache": False}}]},
    }
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    files = {
        "params.yaml": yaml.safe_dump(PARAMS),
        "dvc.yaml": yaml.safe_dump(STAGES),
        "dvc.lock": "full results\n",
        ".gitignore": "/data/\n/.workspaces/\n",
        "code/a.py": "x = 1\n",
        "reports/metrics.json": "{}",
        "reports/page.j2": "page",
        "data/rows.parquet": "rows of the full run",
        "models/target/config.json": "{}",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "-A"], check=True)
    return root


def test_the_full_profile_runs_in_the_repository_itself(repository: Path) -> None:
    assert refresh(repository, "full") == repository
    assert not (repository / ".workspaces").exists()


def test_a_copy_holds_sources_but_no_results(repository: Path) -> None:
    (repository / "new.py").write_text("not committed yet")

    copy = refresh(repository, "smoke")

    assert copy == repository / ".workspaces" / "smoke"
    assert (copy / "code/a.py").read_text() == "x = 1\n"
    assert (copy / "new.py").read_text() == "not committed yet"
    assert (copy / "reports/page.j2").exists()
    for result in ("dvc.lock", "reports/metrics.json", "data/rows.parquet", "models/target"):
        assert not (copy / result).exists()


def test_the_profile_is_laid_over_the_parameters(repository: Path) -> None:
    copy = refresh(repository, "smoke")

    params = yaml.safe_load((copy / "params.yaml").read_text())
    assert params["profile"] == "smoke"
    assert params["prompts"] == {**PARAMS["prompts"], "limit": 16}
    assert "profiles" not in params


def test_a_model_folder_in_the_repository_is_found_from_the_copy_too(repository: Path) -> None:
    (repository / "own/model").mkdir(parents=True)

    copy = refresh(repository, "smoke")

    params = yaml.safe_load((copy / "params.yaml").read_text())
    assert params["target"]["source"] == str(repository / "own/model")
    assert params["draft"]["source"] == "self-int4"


def test_a_second_refresh_touches_only_what_changed(repository: Path) -> None:
    copy = refresh(repository, "smoke")
    (copy / "dvc.lock").write_text("the copy's own")
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*") if p.is_file()}

    (repository / "code/a.py").write_text("x = 2\n")
    refresh(repository, "smoke")

    changed = {
        p.relative_to(copy).as_posix() for p, t in before.items() if p.stat().st_mtime_ns != t
    }
    assert changed == {"code/a.py"}
    assert (copy / "dvc.lock").read_text() == "the copy's own"


def test_a_file_gone_from_the_repository_goes_from_the_copy(repository: Path) -> None:
    copy = refresh(repository, "smoke")
    (copy / "data").mkdir()
    (copy / "data/rows.parquet").write_text("rows of the smoke run")

    (repository / "code/a.py").unlink()
    refresh(repository, "smoke")

    assert not (copy / "code/a.py").exists()
    assert (copy / "data/rows.parquet").exists()


def test_the_copy_shares_the_cache_and_leaves_git_alone(repository: Path) -> None:
    copy = refresh(repository, "smoke")

    settings = (copy / ".dvc/config.local").read_text()
    assert "no_scm = true" in settings
    assert f"dir = {repository}/.dvc/cache" in settings


def test_an_unknown_profile_is_refused_with_the_known_ones(repository: Path) -> None:
    with pytest.raises(ConfigError, match="no profile 'smok'; it has: full, smoke"):
        workspace_of(repository, "smok")


def test_the_full_profile_takes_no_other_parameters(repository: Path) -> None:
    params = {**PARAMS, "profiles": {"full": {"prompts": {"limit": 3}}}}
    (repository / "params.yaml").write_text(yaml.safe_dump(params))

    with pytest.raises(ConfigError, match="'full' is the parameters as they stand"):
        refresh(repository, "full")


def test_a_misspelled_parameter_in_a_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="'limt'"):
        merged({"prompts": {"limit": 1}}, {"prompts": {"limt": 2}})


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump(STAGES))

    with pytest.raises(MissingPrerequisiteError, match="Git"):
        refresh(tmp_path, "smoke")
