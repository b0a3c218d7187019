"""A fresh clone of this repository, as a stranger would have it, with a tiny target."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SEALS = {"plans/default.seal.json", "plans/default.anchor.json"}


@dataclass(frozen=True)
class Project:
    """A working copy and the environment its commands run in."""

    root: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess:
        """Runs a command in the working copy; on failure shows what it printed."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            **options,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}")
        return done

    def python(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess:
        """Runs the interpreter of this test run."""
        return self.run(sys.executable, *arguments, **options)

    def dvc(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess:
        """Runs DVC."""
        return self.python("-m", "dvc", *arguments, **options)

    def evaluate(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess:
        """Runs what `make evaluate` runs once .venv is there."""
        return self.python("-m", "pipelines.evaluate", *arguments, **options)

    def git(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess:
        """Runs Git with a name to commit under."""
        return self.run(
            "git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments, **options
        )

    def environment(self) -> dict[str, str]:
        """The caller's environment without what would point it elsewhere."""
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("MLFLOW_", "PREFECT_", "DVC_", "SPECDECODE_", "PYTEST_"))
        }
        here = str(Path(sys.executable).parent)
        return kept | {
            "PATH": os.pathsep.join([here, kept.get("PATH", os.defpath)]),
            "HOME": str(self.home),
            "DVC_SITE_CACHE_DIR": str(self.home / "dvc-site"),
            "DVC_NO_ANALYTICS": "1",
            **self.extra,
        }

    def json(self, path: str) -> Any:
        """Reads a JSON document of the working copy."""
        return json.loads((self.root / path).read_text(encoding="utf-8"))

    def params(self, **changes: Any) -> None:
        """Changes parameters, given as dotted names with "__" for the dot."""
        path = self.root / "params.yaml"
        params = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name, value in changes.items():
            *parents, last = name.split("__")
            section = params
            for parent in parents:
                section = section[parent]
            section[last] = value
        path.write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")

    def prompts(self, number: int) -> None:
        """Measures this many prompts; a plan that expects more refuses to start."""
        self.params(prompts__limit=number)
        path = self.root / "plans/default.yaml"
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
        plan["prompts_expected"]["full"] = number
        path.write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")


def clone(target: Path, home: Path, source: Path = ROOT) -> Project:
    """Clones HEAD of `source` and lays its uncommitted files over, as they are on disk."""
    home.mkdir(parents=True, exist_ok=True)
    project = Project(target, home)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(source), str(target)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(source), "ls-files", "-co", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    wanted = {name for name in listed.split("\0") if name and (source / name).is_file()}
    wanted -= SEALS  # tests change the plan and what was sealed with it
    for name in wanted:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)
    for name in project.run("git", "ls-files", "-z").stdout.split("\0"):
        if name and name not in wanted:
            (target / name).unlink(missing_ok=True)
    return project
