"""A scratch copy with a tiny model, and a server of it, for commands as the pages show them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.commands import ROOT
from tests.e2e.conftest import texts
from tests.e2e.tiny_model import write_tiny_model
from tests.governance.repositories import commit, repository

FOLDERS = ("plans", "eval_sets")
TRACE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,20,4\n"
    "2023-11-16 18:15:50.9951690,30,6\n"
)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("docs") / "target", texts=texts(ROOT))


@pytest.fixture(scope="session")
def served(tiny):
    """Address of `specdecode serve` with the tiny model."""
    arguments = ["--target", tiny, "--draft", "self-int8", "--port", "0", "--json", "--no-guard"]
    with subprocess.Popen(
        [sys.executable, "-m", "specdecode", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,  # the scratch copy has a folder `specdecode`, which would be imported
        env={k: v for k, v in os.environ.items() if k != "SPECDECODE_API_KEY"},
    ) as process:
        document = ""
        while "}" not in document:
            line = process.stdout.readline()
            assert line, "the server ended"
            document += line
        yield json.loads(document)["url"]
        process.terminate()


@pytest.fixture
def scratch(tmp_path, monkeypatch, tiny):
    """The root of a repository like this one, and the working directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    for name in ("SPECDECODE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    code = {f"{name}/code.py": "a = 1\n" for name in ("specdecode", "pipelines")}
    ignored = "models/\ndata/\n*.svg\nload-*/\n"
    answers = (ROOT / "docs/plan.md").read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    files = {**code, ".gitignore": ignored, "answers.yaml": answers, "requirements.lock": lock}
    root = repository(tmp_path / "repository", monkeypatch, files)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, root / name)
    (root / "models").mkdir()
    shutil.copytree(tiny, root / "models/target")
    shutil.copytree(tiny, root / "models/draft")
    (root / "my-prompts").mkdir()
    page = (ROOT / "docs/bring-your-own.md").read_text("utf-8")
    prompts = page.split("```json\n")[1].split("```")[0]
    (root / "my-prompts/support.jsonl").write_text(prompts, encoding="utf-8")
    (root / "my-trace.csv").write_text(TRACE, encoding="utf-8")
    commit(root)
    monkeypatch.chdir(root)
    return root
