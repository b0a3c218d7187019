"""Which rows of a live stage count."""

from __future__ import annotations

from datetime import timedelta

import pytest

from specdecode.governance.live.rows import read_live
from specdecode.governance.live.scope import scope_of, step_of
from specdecode.governance.plan_stages import Stage
from specdecode.governance.tables import as_rows
from specdecode.measurement.source import TableSource
from tests.governance.live.streams import CANARY, SHADOW, START, canary, row, shadow


def scope(stage, rows, step=None, **changes):
    rows = read_live(TableSource(as_rows(rows)))
    return scope_of(Stage.model_validate(stage | changes), rows, step, "block", "plain")


def test_everything_counts_where_nothing_ends_the_stage():
    found = scope(SHADOW, shadow(30))

    assert (len(found.arm), len(found.baseline)) == (30, 30)
    assert (found.beyond, found.open, found.spent) == (0, 0, False)


def test_at_n_max_the_budget_is_spent_and_beyond_it_nothing_counts():
    at, beyond = (scope(SHADOW, shadow(n), n_min=5, n_max=20) for n in (20, 33))

    assert (at.spent, at.beyond) == (True, 0)
    assert (beyond.spent, beyond.beyond, len(beyond.arm)) == (True, 13, 20)


def test_of_a_canary_the_baseline_ends_with_the_candidate():
    rows = canary(200)
    found = scope(CANARY, rows, "0.5", n_min=5, n_max=20)

    assert len(found.arm) == 20
    assert int(found.baseline.time[-1]) <= int(found.arm.time[-1])
    assert len(found.baseline) < 100


def test_the_baseline_ends_there_too_while_the_candidates_next_request_is_awaited():
    """It was read on until then, so that what these rows decided was undecided after."""
    rows = canary(200)
    last = [i for i, each in enumerate(rows) if each["arm"] == "block"][19]
    late = [row(300 + i, "plain", "canary", profile="0.5") for i in range(50)]
    waiting, after = (
        scope(CANARY, each, "0.5", n_min=5, n_max=20)
        for each in (rows[: last + 1] + late, rows[: last + 1] + late + rows[last + 1 :])
    )

    assert waiting.baseline.ids.tolist() == after.baseline.ids.tolist()
    assert (waiting.spent, waiting.beyond, len(waiting.arm)) == (True, 0, 20)


def test_conversations_of_the_baseline_are_not_cut_in_two_at_the_candidates_end():
    def at(minute, conversation, turn, arm):
        name = f"{conversation}/{turn}"
        began = START + timedelta(minutes=minute)
        return row(minute, arm, "canary", prompt_id=name, profile="0.5", started_at=began)

    rows = [at(0, "b0", 1, "plain"), at(1, "a1", 1, "block"), at(2, "b2", 1, "plain"),
            at(3, "a1", 2, "block"), at(4, "b2", 2, "plain"), at(90, "b9", 1, "plain")]  # fmt: skip
    found = scope(CANARY, rows, "0.5", unit="conversation", n_min=1, n_max=1)

    assert found.arm.prompts.tolist() == ["a1/1", "a1/2"]
    assert found.baseline.prompts.tolist() == ["b0/1"]


def test_a_pair_whose_baseline_answers_last_is_a_pair():
    rows = shadow(20)
    for each in rows:
        if each["arm"] == "plain":
            each["started_at"] += timedelta(hours=1)
    found = scope(SHADOW, rows, n_min=5, n_max=20)

    assert (len(found.arm), len(found.baseline)) == (20, 20)


def test_each_step_has_its_own_budget():
    rows = canary(100, share=0.2) + canary(100, share=0.5, first=100)
    steps = [scope(CANARY, rows, step, n_min=5, n_max=10) for step in ("0.2", "0.5")]

    assert [len(each.arm) for each in steps] == [10, 10]


@pytest.mark.parametrize(("per", "kept"), [("minutes", 61), ("hours", 200), ("days", 200)])
def test_the_window_begins_with_the_first_row(per, kept):
    found = scope(SHADOW, shadow(200), window={"length": 1, "per": per})

    assert (len(found.arm), found.beyond, found.spent) == (kept, 200 - kept, kept < 200)


@pytest.mark.parametrize(
    ("profile", "step"),
    [("0.05", "0.05"), ("0.050", "0.05"), ("5e-2", "0.05"), (None, None), ("full", None)],
)
def test_a_step_is_a_share_however_it_is_spelled(profile, step):
    assert step_of(profile) == step
