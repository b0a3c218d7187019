"""The page puts what the ledger has beside what the plan expected, and invents nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.report.page import build_page
from pipelines.report.render import render
from pipelines.report.sections.effort import effort_section, hours
from pipelines.report.words import words
from specdecode.governance.effort import DecisionTaken, Effort, VerdictReached
from tests.pipelines import report_data

EN = words("en")
NONE = EN("effort.none")
PLAN = {"maintenance": {"hours_per_month": 2, "review_hours": 4.5}}
H = 3600.0
HELD = VerdictReached("INCONCLUSIVE", "1" * 64, "2026-11-30T06:00:00Z", 2 * H)
GO = VerdictReached(
    *("GO", "2" * 64, "2026-12-01T04:00:00Z", 24 * H),
    decisions=(
        DecisionTaken("approve", "2026-12-01T04:20:00Z", 20 * 60.0, 24 * H + 20 * 60),
        DecisionTaken("approve", "2026-12-03T05:00:00Z", 49 * H, 73 * H),
    ),
)


@pytest.fixture(scope="module")
def base():
    return replace(report_data.inputs(report_data.records(prompts=6)), plan=PLAN)


def table(inputs):
    [found] = effort_section(inputs, EN).tables
    return {row[0]: tuple(row[1:]) for row in found.rows}


def test_expected_hours_stand_beside_what_is_on_record(base):
    found = table(replace(base, effort=Effort(seals=3, amendments=1, verdicts=(HELD, GO))))

    assert found == {
        "upkeep of draft and configuration": ("2 h a month", "3 seals, 1 amendment, 1 hold"),
        "review of one release": ("4.5 h", "49.0 h from verdict to last decision"),
        "seal to INCONCLUSIVE of 2026-11-30T06:00:00Z": ("–", "2.0 h"),
        "seal to GO of 2026-12-01T04:00:00Z": ("–", "24.0 h"),
        "GO of 2026-12-01T04:00:00Z to “approve” of 2026-12-01T04:20:00Z": ("–", "20 min"),
        "GO of 2026-12-01T04:00:00Z to “approve” of 2026-12-03T05:00:00Z": ("–", "49.0 h"),
    }


def test_without_such_lines_all_of_it_is_none_on_record(base):
    assert table(base) == {
        "upkeep of draft and configuration": ("2 h a month", NONE),
        "review of one release": ("4.5 h", NONE),
        "seal to verdict": ("–", NONE),
        "verdict to approval": ("–", NONE),
    }


def test_a_seal_alone_is_on_record_and_the_rest_is_not(base):
    found = table(replace(base, effort=Effort(seals=1)))

    assert found["upkeep of draft and configuration"][1] == "1 seal, 0 amendments, 0 holds"
    assert found["review of one release"][1] == found["seal to verdict"][1] == NONE


def test_a_decision_on_a_verdict_without_a_line_is_timed_from_the_seal(base):
    taken = DecisionTaken("reject", "2026-11-30T09:00:00Z", None, 5 * H)
    found = table(replace(base, effort=Effort(seals=1, decisions=(taken,))))

    assert found["seal to “reject” of 2026-11-30T09:00:00Z"] == ("–", "5.0 h")
    assert found["verdict to approval"] == ("–", NONE)


@pytest.mark.parametrize("plan", [None, {}, {"maintenance": None}])
def test_a_plan_that_expects_nothing_says_so(base, plan):
    assert {row[0] for row in list(table(replace(base, plan=plan)).values())[:2]} == {"not stated"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, NONE), (0.0, "0 min"), (3599.0, "60 min"), (3600.0, "1.0 h"), (90 * H, "90.0 h")],
)
def test_times_are_in_the_plan_s_unit(seconds, text):
    assert hours(seconds, EN) == text


def test_the_table_is_on_the_page(base):
    text = render(build_page(replace(base, effort=Effort(seals=1, verdicts=(GO,)))))

    assert "Effort: expected and on record" in text
    assert "49.0 h from verdict to last decision" in text
