"""Shards as a flow on a real server measures them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import shards
from tests.pipelines.prefect_server import Served
from tests.pipelines.shard_workspace import write_workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_flow_measures_in_shards_and_goes_on_where_one_failed(
    served: Served, tmp_path: Path
) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    blocked = shards.spool_of(workspace, 1, 2)
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file, where the shard wants a folder")
    script = (
        "import sys; from pathlib import Path; "
        "from pipelines.flows.evaluate_sharded import dealt_out, runner_for; "
        "dealt_out.with_options(task_runner=runner_for(None))(Path(sys.argv[1]), 2)"
    )

    first = served.python("-c", script, str(workspace))
    kept = shards.gathered(workspace)
    blocked.unlink()
    second = served.python("-c", script, str(workspace))

    assert first.returncode != 0
    assert "shard 1: " in first.stderr
    assert kept == shards.keys_of(workspace, 0, 2)
    assert second.returncode == 0, second.stderr
    assert shards.gathered(workspace) == set(shards.expected(workspace))
