"""Charts show what they are given, say the same in words, and write deterministic files."""

from __future__ import annotations

import csv
import itertools

import pytest

from pipelines.report.chart import write_files
from pipelines.report.charts.acceptance import by_position, histogram
from pipelines.report.charts.acceptance_time import over_time
from pipelines.report.charts.evidence import evidence_curve
from pipelines.report.charts.forest import forest
from pipelines.report.charts.load import load_curve
from pipelines.report.charts.time_budget import time_budget
from pipelines.report.estimate import MISSING, Estimate, read_estimate
from pipelines.report.sections.acceptance import step_counts
from pipelines.report.sections.provenance import flatten
from pipelines.report.standins import em_wide, stand_in
from pipelines.report.svg import new_figure
from pipelines.report.theme import DARK, PAGE, PRINT, css_variables, marker, slot, sort_arms
from pipelines.report.words import words

EN, JA = words("en"), words("ja")


def charts(said=EN):
    groups = [("all", {"token": Estimate(1.2, 1.1, 1.3, 9), "block": MISSING})]
    return [
        forest(
            "speed", "Speed", groups, said, quantity="ratio", caption="", reference=1.0, limit=1.1
        ),
        histogram({"token": [1, 2, 7], "block": [0, 0, 0]}, said),
        by_position({"token": [0.9, None]}, {"token": [0.9, 0.7]}, said),
        evidence_curve({"plain": [(0, 0.0), (9, -0.5)], "token": []}, 0.01, said),
        time_budget({"plain": {"verify": 30.0, "other": 2.0}, "token": {"draft": None}}, said),
        over_time({"token": [(0, 4, Estimate(3.1, 3.0, 3.2, 5)), (5, 9, MISSING)]}, said),
        load_curve({"k4": [(1, Estimate(1.5, 1.4, 1.6)), (4, Estimate(0.9))]}, said),
    ]


def test_the_table_behind_a_picture_keeps_what_could_not_be_drawn():
    speed = charts()[0]
    assert ("all", "block", None, None, None, None) in [tuple(row) for row in speed.rows]


def test_an_arm_without_data_is_not_drawn_as_nothing_but_left_out():
    bars = charts()[1]
    assert {row[0] for row in bars.rows} == {"token"}


@pytest.mark.parametrize("said", [EN, JA], ids=["en", "ja"])
@pytest.mark.parametrize("index", range(7))
def test_pictures_hold_no_colour_of_their_own_and_repeat_exactly(index, said):
    svg = charts(said)[index].svg
    assert svg == charts(said)[index].svg
    for placeholder in css_variables(PAGE).values():
        assert placeholder not in svg
    assert "var(--ink)" in svg
    assert "<metadata" not in svg
    assert not set(svg) & set(em_wide())


def test_wide_characters_take_their_room_and_come_back():
    words_drawn = JA("histogram.x"), JA("histogram.y")
    svg = charts(JA)[1].svg
    assert all(f">{text}</text>" in svg for text in words_drawn)
    assert len(em_wide()) > 60


def test_labels_in_japanese_stand_at_their_ticks():
    groups = [("全リクエスト", {"token": Estimate(1.2, 1.1, 1.3, 9)}), ("日本語", {})]
    svg = forest("speed", "速度", groups, JA, quantity="速度比", caption="").svg
    assert ">全リクエスト</text>" in svg
    assert ">日本語</text>" in svg


def test_more_kinds_of_wide_characters_than_there_is_room_for_are_refused():
    many = "".join(chr(0x4E00 + i) for i in range(400))
    figure, axes = new_figure(PRINT, 4.6, 3.4)
    axes.set_xlabel(many)
    with pytest.raises(ValueError, match="shorten its labels"):
        stand_in(figure)


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
        forest("a", "A", [("all", {"token": MISSING})], EN, quantity="", caption=""),
        histogram({}, EN),
        by_position({}, {}, EN),
        evidence_curve({"plain": []}, 0.01, EN),
        time_budget({"plain": {}}, EN),
        over_time({"token": []}, EN),
        load_curve({"k4": [(1, MISSING)]}, EN),
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
    assert EN.number(None) == EN.share(None) == "not measured"
    assert EN.number(0.0) == "0.00"
    assert EN.interval(None, None) == "no interval"
    assert EN.interval(1.0, None) == "1.00 to +∞"
    assert JA.number(None) == "未計測"
    assert JA.interval(1.0, 2.0) == "1.00 〜 2.00"
    assert read_estimate({"estimate": None, "low": None, "high": None, "n": 0}).value is None
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
