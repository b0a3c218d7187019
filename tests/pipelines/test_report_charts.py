"""Charts show what they are given, say the same in words, and write deterministic files."""

from __future__ import annotations

import csv
import itertools

import pytest

from pipelines.report.chart import write_files
from pipelines.report.charts.acceptance import by_position, histogram
from pipelines.report.charts.evidence import evidence_curve
from pipelines.report.charts.forest import forest
from pipelines.report.charts.time_budget import time_budget
from pipelines.report.estimate import MISSING, Estimate, interval, number, read_estimate, share
from pipelines.report.sections.acceptance import step_counts
from pipelines.report.sections.provenance import flatten
from pipelines.report.theme import DARK, PAGE, PRINT, css_variables, marker, slot, sort_arms


def charts():
    groups = [("all", {"token": Estimate(1.2, 1.1, 1.3, 9), "block": MISSING})]
    return [
        forest("speed", "Speed", groups, quantity="ratio", caption="", reference=1.0, limit=1.1),
        histogram({"token": [1, 2, 7], "block": [0, 0, 0]}),
        by_position({"token": [0.9, None]}, {"token": [0.9, 0.7]}),
        evidence_curve({"plain": [(0, 0.0), (9, -0.5)], "token": []}, 0.01),
        time_budget({"plain": {"verify": 30.0, "other": 2.0}, "token": {"draft": None}}),
    ]


def test_the_table_behind_a_picture_keeps_what_could_not_be_drawn():
    speed = charts()[0]
    assert ("all", "block", None, None, None, None) in [tuple(row) for row in speed.rows]


def test_an_arm_without_data_is_not_drawn_as_nothing_but_left_out():
    bars = charts()[1]
    assert {row[0] for row in bars.rows} == {"token"}


@pytest.mark.parametrize("index", range(5))
def test_pictures_hold_no_colour_of_their_own_and_repeat_exactly(index):
    svg = charts()[index].svg
    assert svg == charts()[index].svg
    for placeholder in css_variables(PAGE).values():
        assert placeholder not in svg
    assert "var(--ink)" in svg
    assert "<metadata" not in svg


def test_files_repeat_byte_for_byte_and_stale_ones_go(tmp_path):
    (tmp_path / "gone.png").write_bytes(b"old")
    write_files(charts(), tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_files(charts(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    assert "gone.png" not in first
    with (tmp_path / "acceptance_position.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {
        "arm": "token",
        "position": "2",
        "conditional": "",
        "unconditional": "0.7",
    }


def test_nothing_to_draw_is_said_in_words():
    for chart in (
        forest("a", "A", [("all", {"token": MISSING})], quantity="", caption=""),
        histogram({}),
        by_position({}, {}),
        evidence_curve({"plain": []}, 0.01),
        time_budget({"plain": {}}),
    ):
        assert chart.missing
        assert chart.draw is None


def test_an_arm_keeps_its_colour_whoever_else_is_there():
    assert slot("block", ["block"]) == slot("block", ["plain", "token", "block", "tree"])
    assert sort_arms(["zeta", "block", "plain", "alpha"]) == ["plain", "block", "alpha", "zeta"]
    arms = ["plain", "token", "block", "alpha", "zeta"]
    assert len({slot(arm, arms) for arm in arms}) == len(arms)
    assert len({marker(arm, arms) for arm in arms}) == len(arms)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "panel"), [(PRINT, "#f4f6f8"), (DARK, "#1d232a")])
def test_text_and_marks_stand_out_from_the_panel(theme, panel):
    for text in (theme.ink, theme.muted):
        assert contrast(text, panel) >= 4.5
    for mark in (*theme.arms, theme.alarm):
        assert contrast(mark, panel) >= 3.0


def test_missing_numbers_are_called_not_measured():
    assert number(None) == share(None) == "not measured"
    assert number(0.0) == "0.00"
    assert interval(None, None) == "no interval"
    assert interval(1.0, None) == "1.00 to +∞"
    assert read_estimate({"estimate": None, "low": None, "high": None, "n": 0}).reason
    assert read_estimate(True).value is None


def test_step_counts_come_back_from_acceptance_by_position():
    steps = [3, 0, 5, 12]
    total = sum(steps)
    reached = list(itertools.accumulate(reversed(steps)))[::-1]
    positions = [
        {"position": i, "steps": total, "unconditional": reached[i] / total, "conditional": None}
        for i in range(1, len(steps))
    ]
    assert step_counts(positions) == steps
    assert step_counts([]) == []


def test_documents_are_flattened_without_losing_a_leaf():
    document = {"a": {"b": None, "c": [1, 2]}, "rules": [{"name": "speed", "on": True}], "e": {}}
    assert dict(flatten(document)) == {
        "a.b": "null",
        "a.c": "1, 2",
        "rules[speed].name": "speed",
        "rules[speed].on": "yes",
        "e": "{}",
    }
