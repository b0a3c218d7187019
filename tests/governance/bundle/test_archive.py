"""What is written: every file a stranger needs, the same bytes each time, and nothing unsound."""

from __future__ import annotations

import zipfile

import pytest

from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.verifier import PROGRAM, text_of, verify
from specdecode.governance.withheld import Withheld
from specdecode.measurement.records import to_table
from tests.governance.bundle.looks import SECRET, files_of
from tests.governance.bundles import good
from tests.governance.keys import ADA, STRANGER
from tests.measurement.factories import shuffled


def test_the_same_input_gives_the_same_bytes_in_whatever_order_rows_come(tmp_path):
    one = good().write(tmp_path, "one.zip")
    two = good().write(tmp_path, "two.zip", rows=to_table(shuffled(good().rows, 3)))

    assert one.read_bytes() == two.read_bytes()


def test_the_archive_has_no_trace_of_when_and_where_it_was_made(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        traces = {(i.date_time, i.external_attr, i.create_system) for i in archive.infolist()}

    assert names == sorted(names)
    assert traces == {((1980, 1, 1, 0, 0, 0), 0o100644 << 16, 3)}


def test_everything_a_stranger_needs_is_in_it(path):
    files = files_of(path)

    assert set(files) == {
        "MANIFEST.json", "VERIFY.md", "approvals/000.json", "audit.json", "cards/draft.md",
        "cards/target.md", "data_quality.json", "dvc.lock", "ledger.jsonl", "manifest.json",
        "plan.json", "plan.yaml", "record.json", "rows.jsonl", "seal.json", "signers.yaml",
        "verdict.json", "verify.py",
    }  # fmt: skip
    assert sha256_hex(files["plan.json"]) == good().verdict.plan_sha256
    assert files["verdict.json"] == good().verdict.to_bytes()
    assert files["verify.py"] == PROGRAM.read_bytes()
    assert len(files["rows.jsonl"].splitlines()) == good().verdict.rows


def test_the_bundle_as_a_whole_can_be_signed(tmp_path):
    path = good().write(tmp_path, key=ADA)

    assert verify(path)["status"] == "GO"
    assert "all files are signed by Ada" in text_of(verify(path))


def test_a_bundle_over_rows_that_are_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no rows"):
        good().write(tmp_path, rows=to_table([]))
    with pytest.raises(EvidenceError):
        good().write(tmp_path, rows=to_table(good().rows).drop_columns(["arm"]))
    assert not (tmp_path / "bundle.zip").exists()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"signers": None}, ConfigError, "not among the signers"),
        ({"key": STRANGER}, ConfigError, "not among the signers"),
        ({"ledger": good().ledger()[:-9]}, TamperedError, "cut it short"),
        ({"cards": {"../x": b""}}, ConfigError, "plain file name"),
        ({"withheld": Withheld(b"short")}, ConfigError, "32 random"),
        ({"withheld": Withheld(SECRET, shown=["x"])}, ConfigError, "request_id x"),
    ],
)
def test_what_could_not_be_verified_is_not_written(tmp_path, changes, error, words):
    with pytest.raises(error, match=words):
        good().write(tmp_path, **changes)
    assert not (tmp_path / "bundle.zip").exists()
