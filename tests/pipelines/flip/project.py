"""A repository small enough to copy, and verdicts that nobody had to measure."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pipelines.flip.catalogue import FLIPS

ROOT = Path(__file__).resolve().parents[3]
CARRIED = ("params.yaml", "dvc.yaml", "plans", "eval_sets/prompts", "requirements.lock")
SPEED = {
    "name": "block-faster",
    "kind": "speed_ratio",
    "role": "primary",
    "arm": "block",
    "level": 0.97,
    "threshold": 1.1,
    "n": 100,
    "reason": "speed ratio to the baseline",
}


def small_repository(folder: Path) -> Path:
    """The inputs of this repository in a checkout of their own."""
    for name in CARRIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)
    (folder / ".gitignore").write_text("/.workspaces/\n/reports/\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
    return folder


def change(root: Path, name: str, edit: Any) -> None:
    """Edits a YAML file of the repository."""
    document = yaml.safe_load((root / name).read_text(encoding="utf-8"))
    edit(document)
    (root / name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def verdict(status: str, low: float, high: float, **more: Any) -> dict[str, Any]:
    """A verdict of which only the speed rule matters."""
    outcome = {"GO": "pass", "NO_GO": "fail", "INCONCLUSIVE": "undecided", "INVALID": "invalid"}
    rule = {**SPEED, "estimate": (low + high) / 2, "low": low, "high": high}
    return {
        "schema": "specdecode.verdict/1",
        "status": status,
        "plan_name": "p",
        "plan_sha256": "ab" * 32,
        "claim": "c",
        "owner": "o",
        "manifest_sha256": "cd" * 32,
        "rows_sha256": "ef" * 32,
        "rows": 600,
        "prompts": 100,
        "reasons": [f"block-faster (block): {status}"],
        "to_change": [],
        "reopen_when": [],
        "overturned_by": [],
        "rules": [{**rule, "outcome": outcome[status]}],
        **more,
    }


class Evaluations:
    """Stands in for `dvc repro`: writes the verdict of each flip and remembers who asked."""

    def __init__(self, verdicts: Mapping[str, dict[str, Any] | int]) -> None:
        self.verdicts, self.asked = dict(verdicts), []

    def __call__(self, copy: Path) -> int:
        name = copy.name
        self.asked.append(name)
        found = self.verdicts.get(name, verdict("GO", 1.2, 1.3))
        if isinstance(found, int):
            return found
        (copy / "reports").mkdir(exist_ok=True)
        (copy / "reports/verdict.json").write_text(json.dumps(found), encoding="utf-8")
        return 0


def flips(*names: str) -> list[Any]:
    """Flips by name."""
    return [FLIPS[name] for name in names]
