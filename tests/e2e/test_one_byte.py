"""One byte of any input: the manifest changes, and exactly what depends on the input runs again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.test_evaluation import ALWAYS, stages_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def prepared(project: Project) -> Project:
    """Everything up to the manifest is made."""
    project.dvc("repro", "manifest")
    return project


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def add_blank(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def change_prompt(path: Path) -> None:
    first, *others = path.read_text(encoding="utf-8").splitlines()
    prompt = json.loads(first)
    prompt["turns"][0] += "!"
    path.write_text("\n".join([json.dumps(prompt, ensure_ascii=False), *others]) + "\n")


def change_template(path: Path) -> None:
    path.write_text(path.read_text().replace("{% for", "!{% for"))


def change_params(path: Path) -> None:
    path.write_text(path.read_text().replace("max_tokens: 40", "max_tokens: 41"))


CASES: list[tuple[str, str, Callable[[Path], None], set[str], set[str]]] = [
    # what, file, change, stages that run besides the cheap ones, entries that change
    (
        "weights",
        "../tiny/model.safetensors",
        flip_last_byte,
        {"target", "draft", "manifest"},
        {"target.weights", "draft.weights", "draft.manifest"},
    ),
    (
        "tokenizer",
        "../tiny/tokenizer.json",
        add_blank,
        {"target", "draft", "prompts", "manifest"},
        {"target.tokenizer", "draft.tokenizer", "draft.manifest"},
    ),
    (
        "chat template",
        "../tiny/chat_template.jinja",
        change_template,
        {"target", "draft", "prompts", "validate", "manifest"},
        {"target.chat_template", "draft.chat_template", "draft.manifest", "prompts.compiled"},
    ),
    (
        "model configuration",
        "../tiny/config.json",
        add_blank,
        {"target", "draft", "prompts", "manifest"},
        {"target.config", "draft.config", "draft.manifest"},
    ),
    (
        "prompt",
        "eval_sets/prompts/chat.jsonl",
        change_prompt,
        {"prompts", "validate", "manifest"},
        {"prompts.files", "prompts.compiled"},
    ),
    ("plan", "plans/default.yaml", add_blank, {"manifest"}, {"plan"}),
    ("parameters", "params.yaml", change_params, {"manifest"}, {"params"}),
    ("code", "specdecode/decoding/loop.py", add_blank, {"manifest"}, {"code.decoding"}),
    ("lock", "requirements.lock", add_blank, {"manifest"}, {"lock"}),
]


@pytest.mark.parametrize(
    ("file", "change", "stages", "entries"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_one_byte_reaches_exactly_what_depends_on_it(
    prepared: Project,
    file: str,
    change: Callable[[Path], None],
    stages: set[str],
    entries: set[str],
) -> None:
    before = prepared.json("reports/manifest.json")

    change(prepared.root / file)
    ran = stages_run(prepared.dvc("repro", "manifest").stdout)

    after = prepared.json("reports/manifest.json")
    differing = {
        name for name in after["entries"] if after["entries"][name] != before["entries"].get(name)
    }
    assert ran - ALWAYS == stages
    assert differing == entries
    assert after["manifest_sha256"] != before["manifest_sha256"]


def test_a_new_date_on_an_old_file_changes_nothing(prepared: Project) -> None:
    (prepared.root / "../tiny/model.safetensors").touch()
    (prepared.root / "plans/default.yaml").touch()

    assert stages_run(prepared.dvc("repro", "manifest").stdout) == ALWAYS


def test_a_new_look_of_the_report_costs_no_new_measurement(prepared: Project) -> None:
    template = next((prepared.root / "reports/templates").iterdir())
    add_blank(template)

    assert stages_run(prepared.dvc("repro", "manifest").stdout) == ALWAYS
