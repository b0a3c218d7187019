"""The stages `prompts` and `validate` turn files into files, and failures into exit code 2."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdecode.workload.compile import ContextTokenizer, read_prompts
from tests.pipelines.test_quality import LIMITS
from tests.workload.examples import ByteTokenizer, prompt_set

ROOT = Path(__file__).resolve().parents[2]
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
PARAMS: dict[str, Any] = {
    **SHIPPED,
    "prompts": {
        **SHIPPED["prompts"],
        "path": "prompts",
        "first_turn_only": False,
        "split_seed": 1,
        "order_seed": 2,
        "max_tokens": 64,
        "near_duplicate_jaccard": 0.7,
        "near_duplicate_overlap": 0.5,
        "checkable_categories": ["arithmetic"],
        "limit": None,
    },
    "validate": LIMITS,
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params.yaml and prompt files; the tokenizer needs no model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (tmp_path / "prompts").mkdir()
    lines = [p.model_dump_json(by_alias=True) for p in prompt_set()]
    (tmp_path / "prompts" / "all.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr(
        "specdecode.workload.compile.load_tokenizer",
        lambda folder: ContextTokenizer(ByteTokenizer(), 2048),
    )
    return tmp_path


def stage(name: str) -> int:
    module = f"pipelines.stages.{name}"
    sys.modules.pop(module, None)  # runpy warns about a module that is imported already
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    return int(ended.value.code or 0)


def test_prompts_are_compiled_and_validated(workspace: Path) -> None:
    assert stage("prompts") == 0
    assert stage("validate") == 0

    assert read_prompts("data/prompts.parquet").num_rows == 72
    report = json.loads(Path("data/validation.json").read_text())
    assert (report["schema"], report["status"]) == ("specdecode.validation/1", "passed")


def test_running_again_gives_the_same_bytes(workspace: Path) -> None:
    files = [Path("data/prompts.parquet"), Path("data/validation.json")]
    stage("prompts")
    stage("validate")
    before = [file.read_bytes() for file in files]

    stage("prompts")
    stage("validate")

    assert [file.read_bytes() for file in files] == before


def test_a_malformed_line_ends_the_stage_with_its_place(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("prompts/all.jsonl").open("a") as file:
        file.write('\n{"question_id": "x"}\n')

    assert stage("prompts") == 2

    said = capsys.readouterr().err
    assert "all.jsonl, line 73, field 'category': is required but missing" in said
    assert "Traceback" not in said
    assert not Path("data/prompts.parquet").exists()


def test_bad_data_stops_the_pipeline_but_leaves_the_report(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.loads(Path("prompts/all.jsonl").read_text().splitlines()[0])
    line.update(question_id="leaky", turns=["Write to joe.smith@gmail.com about the boat."])
    with Path("prompts/all.jsonl").open("a") as file:
        file.write("\n" + json.dumps(line))
    assert stage("prompts") == 0

    assert stage("validate") == 2

    said = capsys.readouterr().err
    assert "no personal data" in said
    assert "[leaky]" in said
    assert json.loads(Path("data/validation.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(("name", "section"), [("prompts", "prompts"), ("validate", "validate")])
def test_a_missing_parameter_is_named(
    workspace: Path, capsys: pytest.CaptureFixture[str], name: str, section: str
) -> None:
    stage("prompts")
    Path("params.yaml").write_text(yaml.safe_dump({**PARAMS, section: {}}))

    assert stage(name) == 2
    assert "params.yaml" in capsys.readouterr().err


def test_validating_before_compiling_says_what_to_run(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage("validate") == 2
    assert "run the prompts stage first" in capsys.readouterr().err
