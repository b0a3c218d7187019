"""Which rows of a live stage count."""

from __future__ import annotations

import pytest

from specdecode.governance.live.rows import read_live
from specdecode.governance.live.scope import scope_of, step_of
from specdecode.governance.plan_stages import Stage
from specdecode.governance.tables import as_rows
from specdecode.measurement.source import TableSource
from tests.governance.live.streams import CANARY, SHADOW, canary, shadow


def scope(stage, rows, step=None, **changes):
    rows = read_live(TableSource(as_rows(rows)))
    return scope_of(Stage.model_validate(stage | changes), rows, step, "block", "plain")


def test_everything_counts_where_nothing_ends_the_stage():
    found = scope(SHADOW, shadow(30))

    assert (len(found.arm), len(found.baseline), found.units) == (30, 30, 30)
    assert (found.beyond, found.open, found.spent) == (0, 0, False)


def test_at_n_max_the_budget_is_spent_and_beyond_it_nothing_counts():
    at, beyond = (scope(SHADOW, shadow(n), n_min=5, n_max=20) for n in (20, 33))

    assert (at.spent, at.beyond) == (True, 0)
    assert (beyond.spent, beyond.beyond, beyond.units, len(beyond.arm)) == (True, 13, 20, 20)


def test_of_a_canary_the_baseline_ends_with_the_candidate():
    rows = canary(200)
    found = scope(CANARY, rows, "0.5", n_min=5, n_max=20)

    assert len(found.arm) == 20
    assert int(found.baseline.time[-1]) <= int(found.arm.time[-1])
    assert len(found.baseline) < 100


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
