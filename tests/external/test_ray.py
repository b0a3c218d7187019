"""Shards on a local Ray cluster: the rows are those of one piece, and a failure is seen.

pip install -r pipelines/deployments/ray/requirements.txt
python -m pytest tests/external/test_ray.py
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
from prefect.testing.utilities import prefect_test_harness

from pipelines import shards
from pipelines.flows.evaluate_sharded import dealt_out, runner_for
from pipelines.stages import measure
from tests.external.conftest import REQUIRED
from tests.pipelines.shard_workspace import ARMS, COUNT, write_workspace

pytestmark = [pytest.mark.external, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
ASKED = {"num_cpus": 1, "num_gpus": 0}


@pytest.fixture(scope="module", autouse=True)
def server():
    """Skips without Ray; else a Prefect server for the runs."""
    if importlib.util.find_spec("prefect_ray") is None:
        reason = "Ray is not installed: pip install -r pipelines/deployments/ray/requirements.txt"
        if "ray" in os.environ.get(REQUIRED, "").split():
            pytest.fail(f"{reason} ({REQUIRED} says that its tests must run)")
        pytest.skip(reason)
    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    folder = write_workspace(tmp_path / "workspace")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder


def spooled(workspace):
    lines = (workspace / measure.SPOOL / "rows.jsonl").read_text().splitlines()[1:]
    return [json.loads(line) for line in lines]


def told(rows):
    """What of a row does not hang on the clock."""
    return sorted(
        (r["request_id"], r["order_index"], r["seed"], r["output_token_ids"]) for r in rows
    )


def test_two_shards_on_ray_give_the_rows_of_one_piece(workspace):
    dealt_out.with_options(task_runner=runner_for("local"))(workspace, 2, ASKED)
    rows = spooled(workspace)
    (workspace / measure.SPOOL / "rows.jsonl").unlink()

    shards.measure_shard(0, 1)  # all of it, here
    shards.gather(workspace, shards.shard_lines(workspace, 0, 1))

    assert len(rows) == COUNT * len(ARMS) * 2
    assert told(rows) == told(spooled(workspace))
    assert all(row["error"] is None for row in rows)


def test_a_shard_that_fails_on_ray_is_named_and_the_rows_of_the_other_are_kept(workspace):
    lock = shards.spool_of(workspace, 1, 2)
    lock.parent.mkdir(parents=True)
    lock.write_text("a file, where the shard wants a folder")

    with pytest.raises(RuntimeError, match=r"shard 1: .*Rows of the others are kept"):
        dealt_out.with_options(task_runner=runner_for("local"))(workspace, 2, ASKED)
    kept = shards.gathered(workspace)
    lock.unlink()
    dealt_out.with_options(task_runner=runner_for("local"))(workspace, 2, ASKED)

    assert kept == shards.keys_of(workspace, 0, 2)
    assert shards.gathered(workspace) == set(shards.expected(workspace))
