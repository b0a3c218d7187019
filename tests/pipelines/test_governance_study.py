"""The command behind `make study`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from pipelines import governance_study
from pipelines.study_page import filled
from specdecode.errors import ConfigError
from tests.governance.plans import small_plan

PAGE = Path(__file__).parents[2] / "docs/study.md"
PLAN = small_plan(prompts_expected={"full": 30})


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(PLAN.model_dump(mode="json", by_alias=True)))

    def run(name: str, *options: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(PAGE, folder / "study.md")
        suffixes = {"--report": "json", "--picture": "svg", "--page": "md"}
        places = [text for o, end in suffixes.items() for text in (o, str(folder / f"study.{end}"))]
        counts = ["--runs", "3", "--power-runs", "2", "--jobs", "1", "--plan", str(plan)]
        monkeypatch.setattr(sys, "argv", ["study", *counts, *places, *options])
        assert governance_study.main() == 0
        return folder

    return run


def test_it_writes_report_and_picture_and_says_both_rates(study, capsys):
    folder = study("first")
    document = json.loads((folder / "study.json").read_text())
    told = capsys.readouterr().err

    assert document["false_alarm"]["runs"] == 3
    assert {entry["runs"] for entry in document["power"]} == {2}
    assert document["code_sha256"] == governance_study.code_sha256()
    assert "speed 1.3" in (folder / "study.svg").read_text()
    assert (folder / "study.md").read_text() == filled(PAGE.read_text(), document)
    assert (folder / "study.md").read_text() != PAGE.read_text()
    assert "false_go" in told
    assert "promised: at most 2.50%" in told


def test_the_number_of_processes_and_the_parts_change_nothing(study, monkeypatch):
    first = study("first")
    monkeypatch.setattr(governance_study, "CHUNK", 2)
    second = study("second", "--jobs", "2")

    for name in ("study.json", "study.svg", "study.md"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_code_that_is_hashed_is_there_and_counts(tmp_path, monkeypatch):
    folder = governance_study.FOLDER
    before = governance_study.code_sha256()
    for name in governance_study.CODE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.setattr(governance_study, "FOLDER", tmp_path)

    assert governance_study.code_sha256() == before
    for name in governance_study.CODE:
        own = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(own + b"#")
        assert governance_study.code_sha256() != before
        (tmp_path / name).write_bytes(own)


def test_a_page_without_the_place_of_a_table_is_refused(study):
    document = json.loads((study("first") / "study.json").read_text())
    page = PAGE.read_text()
    opening = "<!-- rows: all -->\n"

    for text, message in [
        (page.replace(opening, ""), "0 places '<!-- rows: all -->', not 1"),
        (page + opening, "2 places"),
        (page.partition(opening)[0] + opening + "| a |\n|---|\n", "head of table all, then"),
        (page.partition(opening)[0] + opening + "<!-- end -->\n", "head of table all, then"),
    ]:
        with pytest.raises(ConfigError, match=message):
            filled(text, document)
