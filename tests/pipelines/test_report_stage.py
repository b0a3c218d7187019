"""The stage reads files, writes the page and the plots, and says what it lacks."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.report.inputs import ReportPaths, load_inputs
from pipelines.report.screenshot import find_browser, screenshot
from pipelines.report.screenshot import main as screenshot_main
from pipelines.stages.report import write_report
from specdecode.errors import (
    ConfigError,
    EvidenceError,
    MissingPrerequisiteError,
    TamperedError,
)
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.effort import Effort
from specdecode.governance.ledger import Ledger
from specdecode.measurement.records import write_parquet
from tests.governance.keys import HOUR, NOW
from tests.pipelines import report_data

PATHS = ReportPaths()


@pytest.fixture(scope="module")
def inputs():
    return report_data.inputs(report_data.records(prompts=6))


@pytest.fixture
def project(tmp_path, inputs):
    """A project folder as the stages before the report leave it."""
    documents = {
        PATHS.metrics: inputs.metrics,
        PATHS.verdict: inputs.verdict,
        PATHS.audit: inputs.audit,
        PATHS.manifest: inputs.manifest,
        PATHS.environment: inputs.environment,
        PATHS.draft: inputs.draft,
    }
    for name, document in documents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(document))
    for name, document in (
        (PATHS.plan, inputs.plan),
        (PATHS.params, inputs.params | {"profiles": {"smoke": {"prompts": {"limit": 16}}}}),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(yaml.safe_dump(document))
    write_parquet(inputs.records, tmp_path / PATHS.rows)
    prompts = sorted({record.prompt_id for record in inputs.records})
    kinds = [inputs.checkers.get(prompt) for prompt in prompts]
    table = pa.table({"prompt_id": prompts, "checker_type": pa.array(kinds, pa.string())})
    pq.write_table(table, tmp_path / PATHS.prompts)
    return tmp_path


def test_the_page_and_its_plots_are_written_and_repeat_exactly(project):
    page = write_report(project)
    plots = project / "reports/plots"
    pages = [page, page.with_name("evaluation.ja.html")]
    before = {path.name: path.read_bytes() for path in [*pages, *plots.iterdir()]}
    write_report(project)
    assert {path.name: path.read_bytes() for path in [*pages, *plots.iterdir()]} == before
    assert {"speed_overall.png", "speed_overall.csv", "quality.png"} <= set(before)
    assert before["speed_overall.png"].startswith(b"\x89PNG")


def test_files_come_back_as_they_were_written(project):
    inputs = load_inputs(project)
    assert inputs.arms == ["plain", "token", "block"]
    assert inputs.params is not None
    assert "profiles" not in inputs.params
    assert set(inputs.checkers.values()) <= set(report_data.CHECKERS)
    assert inputs.checkers
    assert len(inputs.records) == 36


@pytest.mark.parametrize("name", ["metrics", "verdict"])
def test_without_metrics_or_verdict_there_is_no_report(project, name):
    path = getattr(PATHS, name)
    (project / path).unlink()
    with pytest.raises(MissingPrerequisiteError, match=path):
        write_report(project)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_document_is_named(project, content):
    (project / PATHS.audit).write_text(content)
    with pytest.raises(ConfigError, match=r"audit\.json"):
        load_inputs(project)


def test_a_broken_plan_is_named(project):
    (project / PATHS.plan).write_text("a: [")
    with pytest.raises(ConfigError, match=r"default\.yaml"):
        load_inputs(project)


def test_rows_that_are_not_rows_are_refused(project):
    (project / PATHS.rows).write_bytes(b"not rows")
    with pytest.raises(EvidenceError, match=r"rows\.parquet"):
        load_inputs(project)


def test_effort_is_read_from_the_ledger_for_this_plan_and_this_verdict(project, inputs):
    assert load_inputs(project).effort == Effort()
    digest, plan = sha256_hex((project / PATHS.verdict).read_bytes()), inputs.verdict["plan_sha256"]
    book = Ledger(project / PATHS.ledger)
    book.append("seal", {"plan_sha256": plan}, at=NOW)
    book.append("seal", {"plan_sha256": "0" * 64}, at=NOW)
    decision = {"verdict_sha256": digest, "decision": "approve"}
    book.append("approval", decision, at=NOW + HOUR)
    found = load_inputs(project).effort

    assert found.seals == 1
    assert [taken.since_seal_s for taken in found.decisions] == [3600.0]
    assert "seal to “approve”" in write_report(project).read_text(encoding="utf-8")


def test_a_broken_ledger_is_no_record(project):
    (project / PATHS.ledger).write_text("{}\n")
    with pytest.raises(TamperedError, match=r"ledger\.jsonl, line 1"):
        load_inputs(project)


def test_a_picture_needs_a_browser_and_says_so(project, monkeypatch, capsys):
    page = write_report(project)
    monkeypatch.setenv("PATH", str(project))
    assert screenshot_main([str(page), str(project / "page.png")]) == 2
    assert "apt install chromium" in capsys.readouterr().err


def test_a_picture_of_a_page_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MissingPrerequisiteError, match="make evaluate"):
        screenshot(tmp_path / "none.html", tmp_path / "none.png", width=10, height=10)


def _has_browser() -> bool:
    try:
        find_browser()
    except MissingPrerequisiteError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not _has_browser(), reason="no Chromium or Chrome on the PATH")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_the_page_in_light_and_dark(project, dark):
    from PIL import Image

    picture = project / "page.png"
    screenshot(write_report(project), picture, width=390, height=600, dark=dark)
    with Image.open(picture) as image:
        assert image.size == (390, 600)
        corner = image.convert("L").getpixel((2, 2))
    assert (corner < 60) is dark
