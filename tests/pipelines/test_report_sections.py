"""Sections made from what other commands measured, and from plan and ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pipelines.report.inputs import ReportPaths, load_inputs
from pipelines.report.render import mark_code
from pipelines.report.sections.acceptance import STRETCHES, stretches
from pipelines.report.sections.cost import cost_section
from pipelines.report.sections.deviations import deviations_section
from pipelines.report.sections.flips import flips_section
from pipelines.report.sections.load import load_section
from pipelines.report.sections.questions import QUESTIONS, questions_section
from pipelines.report.words import words
from specdecode.governance.plan_answers import Answers
from specdecode.governance.statements import Deviation
from specdecode.measurement.metrics import METRICS
from tests.pipelines import report_data

ROOT = Path(__file__).resolve().parents[2]
EN = words("en")
RATIO = {"estimate": 1.4, "low": 1.2, "high": 1.6, "level": 0.95, "rounds": 5, "why": None}
LOSS = {"estimate": 0.8, "low": None, "high": None, "level": 0.95, "rounds": 1, "why": "one round"}
MONEY = {"cost_per_million_useful_tokens": 3.5, "cost_per_request_within_slo": None}
SWEEP = {
    "schema": "specdecode.sweep/1",
    "status": "complete",
    "points": [
        {"arm": "plain", "concurrency": 1, **MONEY, "joules_per_useful_token": None},
        {"arm": "token-4", "concurrency": 1, "throughput_over_plain": RATIO, **MONEY},
        {"arm": "token-4", "concurrency": 16, "throughput_over_plain": LOSS, **MONEY},
    ],
    "crossovers": [
        {
            "arm": "token-4",
            "pays_up_to": 1,
            "does_not_pay_from": None,
            "undecided": [16],
            "estimate": {"concurrency": 7.3},
        }
    ],
    "recommendations": [
        {
            "rule": "token",
            "by_measured_load": [
                {"concurrency": 1, "arm": "token-4", "num_speculative_tokens": 4},
                {"concurrency": 16, "arm": "plain", "num_speculative_tokens": 0},
            ],
        }
    ],
}
FLIPS = {
    "schema": "specdecode.flips/1",
    "profile": "smoke",
    "base": {"verdict": "GO"},
    "flips": [
        {
            "name": "useless-draft",
            "changed": "the draft proposes noise",
            "verdict": "NO_GO",
            "deciding": {
                "rule": "block-faster",
                "value": 0.7,
                "low": 0.6,
                "high": 0.8,
                "limit": 1.1,
            },
            "reasons": ["block-faster: clearly missed"],
        },
        {"name": "half-length", "changed": "half the draft length", "verdict": "GO"},
    ],
}
DEVIATION = Deviation(
    plan_sha256="cd" * 32,
    when="2026-11-30T06:00:00Z",
    stage="offline",
    what="eight prompts fewer",
    why="their checker was wrong",
    data_seen="none",
    impact="wider intervals",
    author="ada",
)


@pytest.fixture(scope="module")
def base():
    return report_data.inputs(report_data.records(prompts=4))


def test_without_a_sweep_load_and_money_are_not_measured(base):
    assert "Not measured" in load_section(base, EN).lead
    assert "`specdecode sweep" in load_section(base, EN).lead
    assert any("Cost and energy: not measured" in note for note in cost_section(base, EN).notes)


def test_a_sweep_shows_where_drafting_stops_to_pay(base):
    section = load_section(replace(base, sweep=SWEEP), EN)
    [chart] = section.charts
    assert [tuple(row) for row in chart.rows] == [
        ("token-4", 1, 1.4, 1.2, 1.6),
        ("token-4", 16, 0.8, None, None),
    ]
    crossover, recommended = section.tables
    assert list(crossover.rows[0]) == ["token-4", "1", "none", "16", "7.3"]
    assert [row[2] for row in recommended.rows] == ["4", "0"]
    money = cost_section(replace(base, sweep=SWEEP), EN).tables[-1]
    assert list(money.rows[0]) == ["plain", "1", "3.50", "not measured", "not measured"]


@pytest.mark.parametrize("found", [{}, {"points": [], "crossovers": []}])
def test_a_sweep_that_measured_nothing_is_no_curve(base, found):
    [chart] = load_section(replace(base, sweep=found), EN).charts
    assert chart.missing


def test_flips_say_which_assumption_turns_the_verdict(base):
    section = flips_section(replace(base, flips=FLIPS), EN)
    assert "1 of 2 changes turn the verdict" in section.lead
    [table] = section.tables
    assert table.rows[0][4] == "0.7 (0.6 to 0.8)"
    assert table.rows[0][2].tone == "bad"
    assert table.rows[1][3] == "–"
    assert not section.notes


def test_flips_of_another_base_say_so(base):
    other = FLIPS | {"base": {"verdict": "INCONCLUSIVE"}}
    assert flips_section(replace(base, flips=other), EN).notes


@pytest.mark.parametrize("flips", [None, {}, {"flips": []}])
def test_no_flips_are_no_result(base, flips):
    section = flips_section(replace(base, flips=flips), EN)
    assert not section.tables
    assert "Not measured" in section.lead or "Nothing is known" in section.lead


def test_the_questions_are_those_a_plan_is_written_from():
    assert tuple(Answers.model_fields) == QUESTIONS


def test_each_question_has_an_answer_of_the_plan_and_one_of_the_data(base):
    plan = yaml.safe_load((ROOT / "plans/default.yaml").read_text(encoding="utf-8"))
    [table] = questions_section(replace(base, plan=plan), EN).tables
    assert len(table.rows) == 7
    assert all(len(str(cell)) > 5 for row in table.rows for cell in row)
    assert "not stated" not in [row[1] for row in table.rows]
    assert "requests ran one at a time" in table.rows[2][2]
    assert table.rows[6][2].startswith("3 of 3 stop conditions")


def test_a_plan_that_answers_nothing_is_not_stated(base):
    [table] = questions_section(replace(base, plan=None), EN).tables
    assert {row[1] for row in table.rows} == {"not stated"}


def test_deviations_on_record_and_in_the_rows_are_listed(base):
    plan = {"prompts_expected": {"full": 9}, "arms": [{"name": "plain"}], "sampling": ["greedy"]}
    section = deviations_section(replace(base, plan=plan, deviations=(DEVIATION,)), EN)
    recorded, measured = section.tables
    assert list(recorded.rows[0])[:2] == ["eight prompts fewer", "their checker was wrong"]
    assert recorded.rows[0][-1] == "not foreseen"
    assert list(measured.rows[0]) == ["prompts", "9", "4"]
    assert list(measured.rows[1]) == ["arms", "plain", "plain, token, block"]


def test_no_deviation_on_record_is_said(base):
    assert "none in the ledger" in deviations_section(base, EN).lead


def test_every_stage_of_a_step_has_its_line(base):
    stages = cost_section(base, EN).tables[0]
    assert [row[0][:2] for row in stages.rows] == ["1.", "2.", "3.", "4.", "5."]
    assert [row[2] for row in stages.rows][2:4] == ["within score", "within score"]


def test_stretches_cover_all_requests_and_add_up_to_the_whole():
    rows = [row for row in report_data.records(prompts=23) if row.arm == "block"]
    found = stretches(list(reversed(rows)), 0.95)
    assert len(found) == STRETCHES
    assert found[0][0] == 0
    assert found[-1][1] == 22
    assert all(item.value >= 1 and (item.low or 1.0) >= 1 for _, _, item in found)
    [whole] = stretches_of_one(rows)
    metric = METRICS["mean_acceptance_length"]
    parts = [metric.parts(row) for row in rows]
    assert whole == pytest.approx(sum(p[0] for p in parts) / sum(p[1] for p in parts))


def stretches_of_one(rows):
    """All rows as one stretch: those of a single place in the order."""
    same = [row.model_copy(update={"order_index": 0}) for row in rows]
    found = stretches(same, 0.95)
    total = sum(item.n or 0 for _, _, item in found)
    assert total >= len({row.prompt_id for row in rows})
    steps = [sum(r.steps or 0 for r in part) for part in _parts(same, len(found))]
    weighted = sum(i.value * s for (_, _, i), s in zip(found, steps, strict=True))
    return [weighted / sum(steps)]


def _parts(rows, number):
    ordered = sorted(rows, key=lambda row: row.request_id)
    return [
        ordered[len(ordered) * i // number : len(ordered) * (i + 1) // number]
        for i in range(number)
    ]


def test_rows_without_a_place_or_without_steps_are_left_out():
    rows = [row for row in report_data.records(prompts=4) if row.arm == "block"]
    blind = [row.model_copy(update={"order_index": None}) for row in rows]
    assert stretches(blind, 0.95) == []


def test_optional_files_are_read_where_they_are(tmp_path):
    paths = ReportPaths()
    for name, text in (
        (paths.metrics, "{}"),
        (paths.verdict, "{}"),
        (paths.flips, '{"flips": []}'),
        (paths.sweep, '{"points": []}'),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = load_inputs(tmp_path)
    assert found.flips == {"flips": []}
    assert found.sweep == {"points": []}


def test_code_is_marked_and_everything_is_escaped():
    assert mark_code("run `a < b` & wait") == "run <code>a &lt; b</code> &amp; wait"
    assert mark_code("an odd ` stays") == "an odd ` stays"
