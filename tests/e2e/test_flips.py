"""Flips in a fresh clone, on a tiny random target: real evaluations, each done once."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.flip.result import Flips
from tests.e2e.conftest import quick_project
from tests.e2e.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

FLIP = ("-m", "pipelines.flip", "--only", "adversarial-prompts")


@pytest.fixture(scope="module")
def flipped(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = quick_project(tmp_path_factory.mktemp("flips"))
    project.params(decoding__max_tokens=8)
    project.python(*FLIP)
    return project


def rows_of(project: Project, name: str) -> Path:
    return project.root / ".workspaces/flips/full" / name / "data/rows.parquet"


def test_a_flip_is_an_evaluation_of_other_prompts_under_a_verdict_of_its_own(
    flipped: Project,
) -> None:
    table = Flips.model_validate(flipped.json("reports/flips.json"))

    assert [row.name for row in table.rows] == ["unchanged", "adversarial-prompts"]
    assert {row.status for row in table.rows} == {"INCONCLUSIVE"}  # eight prompts are too few
    assert len({row.manifest_sha256 for row in table.rows}) == 2
    assert all(row.headline is not None and row.headline.n == 8 for row in table.rows)
    before, after = (pq.read_table(rows_of(flipped, row.name)) for row in table.rows)
    assert (
        set(after["difficulty"].to_pylist())
        == {"adversarial"}
        < set(before["difficulty"].to_pylist())
    )
    assert not (flipped.root / "data/rows.parquet").exists()


def test_what_is_done_is_not_done_again(flipped: Project) -> None:
    measured = {name: rows_of(flipped, name).stat().st_mtime_ns for name in ("unchanged",)}
    first = flipped.json("reports/flips.json")

    again = flipped.python(*FLIP)

    assert set(re.findall(r"^Running stage '(\w+)'", again.stdout, re.M)) == {
        *("sources", "environment")
    }
    assert flipped.json("reports/flips.json") == first
    assert {name: rows_of(flipped, name).stat().st_mtime_ns for name in measured} == measured
