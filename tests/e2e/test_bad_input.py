"""What is wrong with the inputs is said in one message, and nothing runs on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import QUICK, texts
from tests.e2e.project import Project
from tests.e2e.tiny_model import write_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def refused(project: Project) -> str:
    done = project.evaluate(check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert "There is no verdict" in done.stdout
    return done.stdout


@pytest.fixture(autouse=True)
def usual_parameters(project: Project) -> None:
    project.params(**QUICK, draft__source="self-int4")


def test_a_target_that_is_not_there(project: Project) -> None:
    project.params(target__source="no/such/model")

    output = refused(project)

    assert "error: no model at 'no/such/model'" in output
    assert "failed to reproduce 'sources'" in output


def test_a_draft_with_another_tokenizer(project: Project, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other", texts=texts(project.root)[::-1], vocabulary=400)
    project.params(draft__source=str(other))

    output = refused(project)

    assert "target and draft have different tokenizers" in output
    assert "failed to reproduce 'draft'" in output


def test_a_malformed_prompt_is_named_by_file_line_and_field(project: Project) -> None:
    path = project.root / "eval_sets/prompts/chat.jsonl"
    good = path.read_text(encoding="utf-8")
    first, *others = good.splitlines()
    path.write_text("\n".join([first, first.replace('"turns"', '"turn"'), *others]) + "\n")

    output = refused(project)
    path.write_text(good, encoding="utf-8")

    assert "chat.jsonl, line 2, field 'turn" in output
    assert "failed to reproduce 'prompts'" in output


def test_an_unknown_profile_is_wrong_usage(project: Project) -> None:
    done = project.evaluate("--profile", "smok", check=False)

    assert done.returncode == 2
    assert "no profile 'smok'" in done.stdout
    assert "Traceback" not in done.stdout
