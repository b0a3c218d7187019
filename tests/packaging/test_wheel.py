"""What `pip install .` gives: a wheel with all files, one command, one version, nothing missing."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from email import message_from_string

import pytest

import specdecode as package
from tests.docs.commands import ROOT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OWN = f"specdecode-{package.__version__}.dist-info/"


def content(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel):
    files = content(wheel)
    (name,) = [name for name in files if name.startswith(OWN) and name.endswith("/METADATA")]
    return message_from_string(files[name].decode("utf-8"))


def test_the_wheel_has_every_file_of_the_packages_and_no_other(wheel):
    inside = {name for name in content(wheel) if not name.startswith(OWN)}
    here = {
        path.relative_to(ROOT).as_posix()
        for top in ("specdecode", "pipelines")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts  # others import meanwhile
    }
    assert here - inside == set()
    assert inside - here == set()


def test_version_licence_and_needs_are_in_its_metadata(wheel):
    stated = metadata(wheel)
    assert stated["Version"] == package.__version__
    assert stated["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("licenses/LICENSE") for name in content(wheel))
    assert {"pipelines", "ray"} <= set(stated.get_all("Provides-Extra"))
    needed = [line for line in stated.get_all("Requires-Dist") if "extra ==" not in line]
    assert len(needed) == len(PROJECT["dependencies"])


def test_the_version_is_written_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    assert f'__version__ = "{package.__version__}"' in (ROOT / "specdecode/__init__.py").read_text()


def test_the_changelog_knows_the_version_or_has_unreleased_changes():
    first = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert first[1] in ("Unreleased", package.__version__)


def test_the_command_is_there_and_comes_from_the_wheel(installed, tmp_path):
    done = installed.run("specdecode", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"specdecode {package.__version__} ")
    where = installed.run(
        "python", "-c", "import specdecode; print(specdecode.__file__)", cwd=tmp_path
    )
    assert where.stdout.startswith(str(installed.site))


@pytest.mark.parametrize("command", ["verify", "plan", "doctor"])
def test_help_needs_no_file_of_the_repository(installed, tmp_path, command):
    done = installed.run("specdecode", command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Usage: specdecode" in done.stdout


def test_a_plan_is_written_and_checked_away_from_the_repository(installed, tmp_path):
    page = (ROOT / "docs/plan.md").read_text("utf-8")
    (tmp_path / "answers.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    done = installed.run(
        "specdecode", "plan", "new", "plan.yaml", "--answers", "answers.yaml", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    done = installed.run("specdecode", "plan", "check", "plan.yaml", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["plan_sha256"]


def test_doctor_finds_all_that_the_wheel_asks_for(installed, tmp_path):
    done = installed.run("specdecode", "doctor", "--json", cwd=tmp_path)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["torch"]["status"] == "ok"
    assert [c for c in checks.values() if c["status"] == "missing" and c["name"] != "target"] == []


def test_the_verifier_in_the_wheel_runs_alone(installed, tmp_path):
    program = installed.site / "specdecode/governance/verifier/verify.py"
    done = installed.run("python", "-I", str(program), "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_completion_is_installed_for_the_shell_that_is_named(installed, tmp_path):
    done = installed.run(
        "specdecode", "--install-completion", "bash", cwd=tmp_path, HOME=str(tmp_path),
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "specdecode" in (tmp_path / ".bashrc").read_text()
    words = {"COMP_WORDS": "specdecode pl", "COMP_CWORD": "1"}
    done = installed.run("specdecode", cwd=tmp_path, _SPECDECODE_COMPLETE="complete_bash", **words)
    assert done.stdout.split() == ["plan"]
