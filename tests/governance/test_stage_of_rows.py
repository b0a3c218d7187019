"""Which stage's rules rows are judged by, told from the rows."""

from __future__ import annotations

import pytest

from specdecode.errors import EvidenceError
from specdecode.governance.stage_of_rows import view_for
from specdecode.measurement.records import Record, write_parquet
from tests.governance.live.streams import canary, live_plan, shadow, watch

PLAN = live_plan()


@pytest.mark.parametrize(
    ("rows", "stage"),
    [
        (shadow(2), "shadow"),
        (canary(2), "canary"),
        (watch(2), "watch"),
        ([], "offline"),
        (shadow(2) + watch(2), "offline"),
        ([row | {"stage": "confirmation"} for row in shadow(2)], "offline"),
        ([{"stage": "shadow"}], "offline"),  # no rows of evidence at all
    ],
)
def test_rows_of_one_stage_of_the_plan_are_judged_there_others_at_its_own(rows, stage):
    assert view_for(PLAN, rows).stage == stage
    assert view_for(PLAN.at("shadow"), rows).whole is PLAN


def test_a_folder_of_rows_is_looked_into(tmp_path):
    for name, rows in (("a", shadow(2)), ("b", shadow(3))):
        write_parquet([Record.model_validate(row) for row in rows], tmp_path / f"{name}.parquet")

    assert view_for(PLAN, tmp_path).stage == "shadow"


def test_a_path_to_nothing_is_an_error(tmp_path):
    with pytest.raises(EvidenceError, match="no parquet files"):
        view_for(PLAN, tmp_path / "none.parquet")
