"""`specdecode decide`: the verdict as text, as JSON and as exit code."""

from __future__ import annotations

import io
import json
import re

import pytest

from specdecode.cli import main
from specdecode.governance import PLAN_ENTRY, Status, Verdict, sealed_sha256
from specdecode.governance.plan import canonical_json
from specdecode.measurement.records import Record, write_parquet
from tests.governance.live.streams import SHADOW, live_plan, shadow, watch
from tests.pipelines import report_data

PLAN = "plans/default.yaml"
CODES = {"GO": 0, "NO_GO": 10, "INCONCLUSIVE": 11, "INVALID": 12}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.parquet"
    write_parquet(report_data.records(prompts=4), path)
    return path


@pytest.fixture
def fixed(monkeypatch):
    """Make `decide` return a given status: its own tests are about what leads there."""

    def put(status: str) -> None:
        document = report_data.verdict(status)
        document["schema_name"] = document.pop("schema")
        verdict = Verdict.model_validate(document)
        monkeypatch.setattr("specdecode.governance.decide", lambda *_: verdict)

    return put


@pytest.mark.parametrize(("status", "code"), CODES.items())
def test_the_exit_code_carries_the_verdict(specdecode, rows, fixed, status, code):
    fixed(status)
    done = specdecode("decide", "--plan", PLAN, "--rows", rows)
    assert done.code == code
    assert done.out.splitlines()[0] == status
    assert "the audit found no deviation of block" in done.out
    assert "What would change it" in done.out


def test_every_status_has_an_exit_code_of_its_own():
    assert {status.value for status in Status} == set(CODES)


def test_json_is_the_verdict_and_nothing_else(specdecode, rows, fixed):
    fixed("NO_GO")
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--json")
    assert done.document["status"] == "NO_GO"
    assert done.err == ""


def test_real_rows_without_an_audit_never_lead_to_go(specdecode, rows):
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--json")
    assert done.code == CODES["INVALID"]
    assert done.document["status"] == "INVALID"


def test_a_pipe_gets_plain_text(specdecode, rows):
    done = specdecode("decide", "--plan", PLAN, "--rows", rows)
    assert "\x1b" not in done.out + done.err


def test_rows_that_are_not_there_are_a_usage_error(specdecode, tmp_path):
    done = specdecode("decide", "--plan", PLAN, "--rows", tmp_path / "none.parquet")
    assert done.code == 2
    assert "none.parquet" in done.err
    assert "`make evaluate` measures them" in done.err


def test_rows_that_cannot_be_read_are_invalid_evidence(specdecode, tmp_path):
    rows = tmp_path / "rows.parquet"
    rows.write_bytes(b"PAR1")
    done = specdecode("decide", "--plan", PLAN, "--rows", rows)
    assert done.code == CODES["INVALID"]
    assert "rows.parquet" in done.err


@pytest.mark.parametrize("content", [None, "{", "[1]"])
def test_an_audit_that_cannot_be_read_is_a_usage_error(specdecode, rows, tmp_path, content):
    audit = tmp_path / "audit.json"
    if content is not None:
        audit.write_text(content)
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--audit", audit)
    assert done.code == 2
    assert "audit.json" in done.err
    assert "Traceback" not in done.err


def test_leaving_out_the_plan_is_a_usage_error(specdecode, rows):
    done = specdecode("decide", "--rows", rows)
    assert done.code == 2
    assert "--plan" in done.err


def test_an_audit_and_manifest_of_other_inputs_are_refused(specdecode, rows, tmp_path):
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"manifest_sha256": "00" * 32}))
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--manifest", manifest, "--json")
    assert done.document["status"] == "INVALID"
    assert "manifest" in " ".join(done.document["reasons"])


def test_rows_measured_for_another_plan_are_refused(specdecode, tmp_path):
    entries = {PLAN_ENTRY: "00" * 32}
    seal = sealed_sha256(entries)
    rows, manifest = tmp_path / "rows.parquet", tmp_path / "manifest.json"
    records = report_data.records(prompts=2)
    write_parquet([r.model_copy(update={"manifest_sha256": seal}) for r in records], rows)
    manifest.write_text(json.dumps({"entries": entries, "manifest_sha256": seal}))
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--manifest", manifest, "--json")
    assert done.code == CODES["INVALID"]
    assert "measured for another plan" in " ".join(done.document["reasons"])


@pytest.mark.parametrize(
    ("stage", "made", "code"),
    [("shadow", shadow(400), "GO"), ("watch", watch(10), "INCONCLUSIVE")],
)
def test_rows_of_a_live_stage_are_judged_by_it(specdecode, tmp_path, stage, made, code):
    plan, rows = tmp_path / "plan.yaml", tmp_path / "rows.parquet"
    plan.write_text(canonical_json(live_plan()))  # JSON is YAML
    write_parquet([Record.model_validate(each) for each in made], rows)
    done = specdecode("decide", "--plan", plan, "--rows", rows)
    assert done.code == CODES[code]
    assert ("decided at" in done.out) is (stage == "shadow")
    assert re.search(r"share with e2e_s within 1: [01]\.?", done.out)  # no two numbers in a row


def test_a_live_stage_that_cannot_be_judged_is_a_usage_error(specdecode, tmp_path):
    plan, rows = tmp_path / "plan.yaml", tmp_path / "rows.parquet"
    plan.write_text(canonical_json(live_plan(SHADOW | {"alarm_alpha": None})))
    write_parquet([Record.model_validate(each) for each in shadow(3)], rows)
    done = specdecode("decide", "--plan", plan, "--rows", rows)
    assert done.code == 2
    assert "it needs an alarm_alpha" in done.err


def test_a_document_nested_without_end_is_a_usage_error(specdecode, rows, tmp_path):
    deep = tmp_path / "audit.json"
    deep.write_text("[" * 100_000)
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--audit", deep)

    assert done.code == 2
    assert "audit.json: not valid JSON" in done.err


class Terminal(io.StringIO):
    """Standard output of a person."""

    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_cuts_no_name_and_no_number(rows, monkeypatch):
    """Thirteen checks in a row were all called "integrity…"."""
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["decide", "--plan", PLAN, "--rows", str(rows)])
    told = shown.getvalue()
    assert "…" not in told
    assert "checks of the rows pass" in told
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= 80 for line in told.splitlines())
    assert "not measured" not in told


def test_a_check_that_fails_is_in_the_table(specdecode, rows, tmp_path):
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"manifest_sha256": "00" * 32}))
    done = specdecode("decide", "--plan", PLAN, "--rows", rows, "--manifest", manifest)
    assert re.search(r"^integrity/manifest +- +- +- +- +invalid", done.out, re.MULTILINE)
