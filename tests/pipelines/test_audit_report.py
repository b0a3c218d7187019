"""The study of the audit: what is kept, what is counted, and what is told."""

from __future__ import annotations

import json

import pytest

from pipelines.audit_report import alarms, detection, distances, page, picture, report
from pipelines.audit_report.__main__ import _options, groups, summary
from pipelines.audit_report.settings import PAGE, Study
from pipelines.audit_report.store import keep, kept
from specdecode.audit.faults import FAULTS
from specdecode.errors import ConfigError

SMALL = Study(runs=2, limit=640, alarm_runs=2, alarm_tokens=640)
STRONG = "accepts-by-next-row"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def found(data):
    """A study of one strong fault, seen to the end."""
    return report.document(
        SMALL,
        {STRONG: {"mean": 0.3, "error": 0.01, "basis": distances.EXACT}},
        {STRONG: detection.tokens_needed(STRONG, range(2), SMALL, data)},
        alarms.false_alarms(0, 2, SMALL, data),
        None,
    )


def test_a_strong_fault_is_found_in_every_run_and_nobody_else_is_accused(found):
    (fault,) = found["faults"]
    assert fault["detected"] == fault["runs"] == 2
    assert 0 < fault["median_tokens"] <= fault["p90_tokens"] <= SMALL.limit
    assert found["missed_above_0.02"] == []
    alarm = found["false_alarm"]
    assert (alarm["alarms"], alarm["runs"], alarm["rate"], alarm["low"]) == (0, 2, 0.0, 0.0)
    assert 0.5 < alarm["high"] < 1  # two runs say little


def test_a_second_run_takes_what_the_first_one_kept(found, data, monkeypatch):
    monkeypatch.setattr(detection, "_simulated", None)  # would raise if it were called
    monkeypatch.setattr(alarms, "_simulated", None)

    again = detection.tokens_needed(STRONG, range(2), SMALL, data)

    assert report.quantile(again, 0.5) == found["faults"][0]["median_tokens"]
    assert alarms.false_alarms(0, 2, SMALL, data) == [None, None]


def test_results_of_other_settings_or_half_written_ones_are_not_used(tmp_path):
    path = tmp_path / "a" / "b.json"
    keep(path, {"seed": 1}, [5])
    assert kept(path, {"seed": 1}) == [5]
    assert kept(path, {"seed": 2}) is None
    path.write_text(path.read_text()[:-5])
    assert kept(path, {"seed": 1}) is None
    assert kept(tmp_path / "none.json", {}) is None


@pytest.mark.parametrize(
    ("tokens", "share", "value"),
    [
        ([5, 1, 3], 0.5, 3),
        ([4, 1, 3, 2], 0.5, 2),
        (list(range(1, 21)), 0.9, 18),
        ([1, None], 0.5, 1),
        ([1, None, None], 0.5, None),
        ([*range(17), None, None, None], 0.9, None),
        ([], 0.5, None),
    ],
)
def test_a_run_that_found_nothing_counts_as_longer_than_all_others(tokens, share, value):
    assert report.quantile(tokens, share) == value


def test_no_run_is_no_rate():
    alarm = report.alarm([], 100)
    assert (alarm["rate"], alarm["low"], alarm["high"], alarm["runs"]) == (None, None, None, 0)


def test_a_large_fault_that_is_missed_once_is_said_to_be_missed():
    tv = {"mean": 0.021, "error": 0.0, "basis": distances.EXACT}
    small = {"mean": 0.019, "error": 0.0, "basis": distances.EXACT}
    names = ("residual-is-target", "lenient-acceptance")
    missed = report.document(
        SMALL,
        dict(zip(names, (tv, small), strict=True)),
        {name: [9, None] for name in names},
        [],
        None,
    )
    assert missed["missed_above_0.02"] == ["residual-is-target"]


def test_the_page_gets_its_tables_and_keeps_its_sentences(found):
    text = PAGE.read_text("utf-8")
    filled = page.filled(text, found)
    assert f"| 1 | `{STRONG}` | block | 0.3000 |" in filled
    assert "| simulated | 2 | 640 | 0.00% (0.00% to " in filled
    assert "# How sharp the audit is" in filled
    assert page.filled(filled, found) == filled
    with pytest.raises(ConfigError, match="rows: faults"):
        page.filled("nothing", found)


def test_the_picture_is_the_same_each_time_and_shows_every_fault(found):
    assert picture.svg(found) == picture.svg(json.loads(json.dumps(found)))
    assert picture.svg(found).count("<svg") == 1


def test_a_summary_names_what_was_missed(found):
    assert "missed above a total variation of 0.02: none" in summary(found)


def test_groups_of_runs_stay_what_they_are_when_more_are_asked_for():
    assert groups(20, 10) == groups(40, 10)[:2]
    assert [len(group) for group in groups(25, 10)] == [10, 10, 5]


def test_faults_that_share_sampling_share_their_trees():
    parts = distances.alike(FAULTS)
    assert sorted(name for part in parts for name in part) == sorted(FAULTS)
    assert all(len({repr(FAULTS[n].sampling) for n in part}) == 1 for part in parts)


@pytest.mark.parametrize("wrong", [["--runs", "0"], ["--jobs", "-1"], ["--limit", "x"]])
def test_counts_are_checked(wrong):
    with pytest.raises(SystemExit):
        _options(wrong)
