"""Made once by the commands themselves; each test has a copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.cli.confirm.sealed_repository import (
    PARAMS,
    ROOT,
    Repository,
    git,
    prompt_lines,
    write_plan,
)


@pytest.fixture(scope="session")
def sealed(tmp_path_factory, tiny_target):
    """Made once by the commands themselves; tests work on copies."""
    folder = tmp_path_factory.mktemp("sealed")
    root = folder / "repository"
    for name in ("plans", "code", "reports", "models"):
        (root / name).mkdir(parents=True)
    shutil.copytree(tiny_target, root / "models/target")
    (root / "code/program.py").write_text("pass\n")
    (root / "requirements.lock").write_text("nothing\n")
    (root / ".gitignore").write_text("out\nmodels\n*.lock\n!requirements.lock\n")
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (folder / "prompts.jsonl").write_text("\n".join(prompt_lines()))
    write_plan(root / "plans/plan.yaml")
    repository = Repository(root)
    repository.write_manifest()

    def command(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "specdecode", *map(str, arguments)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    command("vault", "key", "../holder.key", "--json")
    command(
        *("vault", "lock", "../prompts.jsonl", "--out", "vault", "--key", "../holder.key"),
        *("--order-seed", 1, "--no-plain", "--target", "models/target", "--reply-tokens", 6),
        "--json",
    )
    made = command("keys", "new", "Ada", "--out", "../ada.pem", "--json")
    (root / "plans/signers.yaml").write_text(yaml.safe_dump([made["signer"]]))
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "before the seal")
    command(
        *("plan", "seal", "plans/plan.yaml", "--key", "../ada.pem", "--code", "code"),
        *("--manifest", "reports/manifest.json", "--power", 0.9, "--json"),
        *("--confirmation", "vault/confirmation.json"),
    )
    return folder


@pytest.fixture
def repository(sealed, tmp_path, monkeypatch):
    shutil.copytree(sealed, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy/repository")
    return Repository(tmp_path / "copy/repository")
