from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.project import Project, clone
from tests.e2e.tiny_model import write_tiny_model

QUICK = {
    "target__source": "../tiny",
    "decoding__max_tokens": 40,  # long enough to be interrupted in
    "decoding__threads": 1,
    # The tiny tokenizer cuts text elsewhere than the one these limits were chosen for.
    "validate__min_prompt_tokens": 1,
    "validate__max_prompt_tokens": 8192,
}


def texts(root: Path) -> list[str]:
    """Every prompt's text: what a tiny tokenizer is trained on."""
    return [
        turn
        for path in sorted((root / "eval_sets/prompts").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
        for turn in json.loads(line)["turns"]
    ]


def quick_project(folder: Path) -> Project:
    """A clone with a tiny target beside it, in a folder of its own."""
    project = clone(folder / "clone", folder / "home")
    write_tiny_model(folder / "tiny", texts=texts(project.root))
    project.params(**QUICK)
    project.prompts(8)
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return quick_project(tmp_path_factory.mktemp("quick"))
