"""What a live stage may read is used up by data, by its window in the rows, or by the clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from specdecode.governance.ladder_budget import spent
from specdecode.measurement.records import Record, to_table
from tests.governance.live.streams import CANARY, SHADOW, START, canary, live_plan, shadow

HOUR = timedelta(hours=1)
PLAN = live_plan(
    SHADOW | {"n_max": 100, "window": {"length": 2, "per": "hours"}},
    CANARY | {"n_max": 60},
)


def table(rows):
    return to_table(Record.model_validate(row) for row in rows)


@pytest.mark.parametrize(
    ("n", "now", "says"),
    [
        (99, START + HOUR, None),
        (100, START + HOUR, "all 100 requests that it may read are read"),
        (10, START + 2 * HOUR, None),
        (10, START + 2 * HOUR + timedelta(seconds=1), "its window of 2 hours is over"),
        (0, START + 9 * HOUR, None),
    ],
    ids=["goes on", "n_max", "in the window", "nobody sends any more", "no rows yet"],
)
def test_a_shadow_ends_by_data_or_by_the_clock(n, now, says):
    assert spent(PLAN.at("shadow"), table(shadow(n)), None, now) == says


def test_each_step_of_a_canary_has_its_own_units():
    rows = canary(400, share=0.2) + canary(20, share=0.5, first=400)
    view, now = PLAN.at("canary"), START + HOUR

    assert spent(view, table(rows), "0.2", now) == "all 60 requests that it may read are read"
    assert spent(view, table(rows), "0.5", now) is None


def test_a_stage_that_looks_once_has_no_budget_to_watch():
    assert spent(PLAN, table(shadow(3)), None, START) is None
