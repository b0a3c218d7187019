"""The prompts in this repository pass the checks that this repository demands of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from pipelines.quality.settings import ValidateSettings
from pipelines.quality.suite import validate
from specdecode.workload import load_prompts
from specdecode.workload.schedule import select_prompts
from specdecode.workload.split import RESERVE
from tests.workload.examples import compiled

ROOT = Path(__file__).parents[2]


def shipped() -> tuple[dict[str, Any], pa.Table]:
    """Parameters and compiled prompts, as they stand in the repository."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
    section = params["prompts"]
    return params, compiled(
        load_prompts(ROOT / section["path"]),
        context_tokens=8192,
        split_seed=section["split_seed"],
        order_seed=section["order_seed"],
        near_duplicate_jaccard=section["near_duplicate_jaccard"],
        near_duplicate_overlap=section["near_duplicate_overlap"],
        checkable_categories=section["checkable_categories"],
    )


def test_the_shipped_prompts_pass_the_shipped_limits() -> None:
    params, table = shipped()
    # Lengths are counted in bytes here, so that the test needs no model; the rest is as shipped.
    limits = ValidateSettings.from_params({**params["validate"], "max_prompt_tokens": 8000})

    report = validate(table, limits)

    assert report["status"] == "passed"
    assert report["rows"] >= 240
    assert all(entry["success"] for entry in report["expectations"])


def test_a_run_as_shipped_decodes_no_prompt_of_the_reserve() -> None:
    params, table = shipped()
    section = params["prompts"]
    reserve = {row["prompt_id"] for row in table.to_pylist() if row["split"] == RESERVE}
    profiles = [{}, *(p.get("prompts", {}) for p in params["profiles"].values())]

    for profile in profiles:
        run = section | profile
        decoded = set(select_prompts(table, run["split"], run["limit"])["prompt_id"].to_pylist())
        assert decoded
        assert not decoded & reserve
    assert len(reserve) > 100
