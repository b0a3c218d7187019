"""Failures of a sweep on disk: when they make a cell worth nothing, and when not."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from specdecode.workload.sweep import journal
from specdecode.workload.sweep.cells import Cell

MANIFEST = {"sha256": "x"}


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Puts a cell on disk, as measured now."""

    def measure(folder):
        place = folder.make_room("k2", 1, 4)
        place.mkdir()
        summary = {
            "started_at": datetime.now(UTC).isoformat(),
            "verdict": {"stopped": None},
        }
        (place / journal.SUMMARY).write_text(json.dumps(summary))

    def read_cell(place, arm, number, load):
        summary = json.loads((place / journal.SUMMARY).read_text())
        return Cell(arm, number, load, whole=True, seconds=1.0, tokens=1, summary=summary)

    monkeypatch.setattr(journal, "read_cell", read_cell)
    return measure


def test_a_cell_measured_after_its_failure_counts_in_every_later_call(measured, tmp_path):
    first = journal.SweepFolder(tmp_path / "s", MANIFEST)
    measured(first)
    first.fail("k2", 1, 4, "the server was gone")

    second = journal.SweepFolder(tmp_path / "s", MANIFEST)
    assert second.read("k2", 1, 4) is None
    measured(second)
    assert second.read("k2", 1, 4) is not None

    third = journal.SweepFolder(tmp_path / "s", MANIFEST)
    assert third.read("k2", 1, 4) is not None


def test_half_a_line_does_not_spoil_the_failures_after_it(tmp_path):
    folder = journal.SweepFolder(tmp_path / "s", MANIFEST)
    folder.fail("a", 1, None, "one")
    path = tmp_path / "s" / journal.FAILURES
    path.write_text(path.read_text() + '{"arm": "b", "rou')
    folder.fail("c", 2, 4, "two")

    again = journal.SweepFolder(tmp_path / "s", MANIFEST)
    assert [failure.arm for failure in again.failures()] == ["a", "c"]
