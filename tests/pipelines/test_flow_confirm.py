"""The flow `confirm` runs the real command on a sealed repository, and opens its set once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.logging import disable_run_logger

from pipelines.flows import commands
from pipelines.flows import confirm as flow
from tests.cli.confirm.conftest import repository, sealed  # noqa: F401 - fixtures
from tests.cli.confirm.sealed_repository import Repository, git, opened
from tests.cli.conftest import tiny_target  # noqa: F401 - a fixture of those

ROOT = Path(__file__).resolve().parents[2]


class Told:
    """What went to Prefect."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.verdicts: list[tuple[dict[str, Any], dict[str, Any]]] = []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """The flow without a server: its body, and what it would have sent."""
    found = Told()
    monkeypatch.setattr(flow, "open_and_judge", flow.open_and_judge.fn)
    monkeypatch.setattr(flow, "measuring_slot", lambda _: nullcontext())
    monkeypatch.setattr(
        flow, "create_markdown_artifact", lambda page, **_: found.pages.append(page)
    )
    monkeypatch.setattr(
        flow, "emit_verdict", lambda verdict, **words: found.verdicts.append((verdict, words))
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return found


def confirm(**words: Any) -> dict[str, Any]:
    given = {
        "keys": ["../holder.key"],
        "plan": "plans/plan.yaml",
        "vault": "vault",
        "out": "out",
    }
    with disable_run_logger():
        return flow.confirm.fn(**given | words)


def test_it_opens_the_set_once_and_comes_to_the_same_verdict_again(
    repository,  # noqa: F811
    told: Told,
) -> None:
    document = confirm()

    verdict = json.loads((repository.root / "out/verdict.json").read_text())
    assert document["status"] == verdict["status"]
    assert opened(repository)
    [(sent, words)] = told.verdicts
    assert sent["manifest_sha256"] == verdict["manifest_sha256"]
    assert (words["stage"], words["owner"]) == ("confirmation", verdict["owner"])
    assert told.pages[0].startswith(f"# {verdict['status']}\n")
    assert f"{document['prompts']} prompts, 0 lost" in told.pages[0]

    assert confirm() == document  # started again, as after a crash
    with pytest.raises(RuntimeError, match="refused: the confirmation set was opened before"):
        confirm(options=["--manifest", another_candidate(repository.root)])
    assert len(told.verdicts) == 2  # a refusal is no verdict


def another_candidate(root: Path) -> str:
    """Another seed, and a manifest of it beside the sealed one."""
    params = root / "params.yaml"
    params.write_text(params.read_text().replace("sampling: 11", "sampling: 12"))
    Repository(root).write_manifest()
    (root / "elsewhere").mkdir()
    shutil.move(root / "reports/manifest.json", root / "elsewhere")
    git(root, "checkout", "-q", "--", "reports/manifest.json")
    return "elsewhere/manifest.json"


def test_what_is_wrong_before_the_opening_is_told_and_consumes_nothing(
    repository,  # noqa: F811
    told: Told,
) -> None:
    with pytest.raises(RuntimeError, match=r"status 2 \(ConfigError\).*no/such/key"):
        confirm(keys=["no/such/key"])

    assert not opened(repository)
    assert told.verdicts == []


@pytest.mark.parametrize(
    ("status", "exploratory", "settled"),
    [
        ("GO", [], "GO"),
        ("GO", ["a deviation"], "INCONCLUSIVE"),
        ("NO_GO", ["a deviation"], "NO_GO"),
        ("INVALID", [], "INVALID"),
    ],
)
def test_a_go_that_is_exploratory_is_no_go_to_act_on(
    status: str, exploratory: list[str], settled: str
) -> None:
    assert flow.settled({"status": status, "exploratory": exploratory}) == settled


def test_a_command_without_a_document_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = tmp_path / "python"
    stub.write_text("#!/bin/sh\necho said >&2\necho no document\nexit 7\n")
    stub.chmod(0o755)
    monkeypatch.setattr(commands.sys, "executable", str(stub))
    lines: list[str] = []

    with pytest.raises(RuntimeError, match="`specdecode audit` ended with status 7 and without"):
        commands.run_json(["audit"], tmp_path, lines.append)

    assert lines == ["said"]


INTERRUPTED = """
import sys
from pathlib import Path
from pipelines.flows import commands

commands.sys.executable = sys.argv[1]
def stop(line):
    raise KeyboardInterrupt
commands.run_json(["confirm"], Path.cwd(), stop)
"""
STUBBORN = """#!{python}
import os, sys, time
from pathlib import Path
Path("child").write_text(str(os.getpid()))
print("begun", file=sys.stderr, flush=True)
time.sleep(600)
"""


def test_a_command_ends_with_the_flow_that_is_cancelled(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text(STUBBORN.format(python=sys.executable))
    stub.chmod(0o755)

    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(stub)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert "KeyboardInterrupt" in done.stderr
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 120
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
