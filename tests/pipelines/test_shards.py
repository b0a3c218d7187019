"""An evaluation measured in shards has the rows that one in a piece has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import environment, shards
from pipelines.stages import measure
from specdecode.errors import ConfigError, EvidenceError
from specdecode.measurement.records import Record, read_records
from tests.pipelines.shard_workspace import ARMS, COUNT, write_workspace

ROWS = COUNT * len(ARMS) * 2


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_workspace(tmp_path_factory.mktemp("shards") / "workspace")


@pytest.fixture
def workspace(ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "workspace"
    shutil.copytree(ready, copy)
    monkeypatch.chdir(copy)
    return copy


def told(rows: list[Record]) -> list[tuple[object, ...]]:
    """What of a row does not hang on the clock."""
    return sorted(
        (row.request_id, row.order_index, row.seed, tuple(row.output_token_ids or ()))
        for row in rows
    )


def test_shards_give_the_rows_of_one_piece(workspace: Path) -> None:
    measure.main()
    whole = told(read_records(workspace / measure.OUTPUT))

    for index in (1, 0):  # whichever ends first
        shards.measure_shard(index, 2)
        shards.gather(workspace, shards.shard_lines(workspace, index, 2))
    measure.main()  # nothing is left to decode: it hands on what was gathered

    assert len(whole) == ROWS
    assert told(read_records(workspace / measure.OUTPUT)) == whole


def test_a_shard_that_was_cut_off_goes_on_from_its_rows(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdecode.workload import offline

    real, decoded = offline.generate_record, []

    def cut_off(generation, *arguments):
        if len(decoded) == 3:
            raise KeyboardInterrupt
        decoded.append(generation.key)
        return real(generation, *arguments)

    monkeypatch.setattr(offline, "generate_record", cut_off)
    with pytest.raises(KeyboardInterrupt):
        shards.measure_shard(0, 2)
    kept = shards.shard_lines(workspace, 0, 2)

    monkeypatch.setattr(offline, "generate_record", real)
    shards.measure_shard(0, 2)

    assert len(kept) == 3
    assert shards.shard_lines(workspace, 0, 2)[:3] == kept
    assert len(shards.shard_lines(workspace, 0, 2)) == 3 * len(ARMS) * 2


def test_gathered_twice_a_row_stays_as_it_was_first_seen(workspace: Path) -> None:
    shards.measure_shard(0, 2)
    lines = shards.shard_lines(workspace, 0, 2)
    later = [json.dumps(json.loads(line) | {"e2e_s": 99.0}) for line in lines]

    first = shards.gather(workspace, lines)
    again = shards.gather(workspace, later)

    assert first == again == len(lines)
    assert shards.gathered(workspace) == shards.keys_of(workspace, 0, 2)
    kept = (workspace / measure.SPOOL / "rows.jsonl").read_text()
    assert '"e2e_s":99.0' not in kept


def test_an_evaluation_after_that_measures_anew(workspace: Path) -> None:
    shards.measure_shard(0, 5)
    first = shards.shard_lines(workspace, 0, 5)

    shards.forget(workspace, 0, 5)
    shards.measure_shard(0, 5)

    again = shards.shard_lines(workspace, 0, 5)
    assert len(again) == len(first)
    assert json.loads(again[0])["started_at"] > json.loads(first[0])["started_at"]


def test_a_row_of_no_place_in_the_schedule_is_refused(workspace: Path) -> None:
    shards.measure_shard(0, 5)
    line = json.loads(shards.shard_lines(workspace, 0, 5)[0])
    strange = json.dumps(line | {"prompt_id": "q", "request_id": "q/greedy/plain"})

    with pytest.raises(EvidenceError, match="no row of this schedule"):
        shards.gather(workspace, [strange])


def test_a_row_of_another_manifest_is_refused(workspace: Path) -> None:
    shards.measure_shard(0, 5)
    line = json.loads(shards.shard_lines(workspace, 0, 5)[0])

    with pytest.raises(EvidenceError, match="manifest"):
        shards.gather(workspace, [json.dumps(line | {"manifest_sha256": "b" * 64})])


def test_a_machine_of_another_kind_is_refused_by_name(workspace: Path) -> None:
    path = workspace / shards.ENVIRONMENT
    recorded = json.loads(path.read_text())
    recorded["hardware"]["cpu"] = "another"
    path.write_text(json.dumps(recorded))

    with pytest.raises(ConfigError, match="not of the kind") as refused:
        shards.measure_shard(0, 2)

    assert "another" in str(refused.value)
    assert not shards.spool_of(workspace, 0, 2).exists()


def test_a_worker_gets_the_thread_settings_the_manifest_was_made_with() -> None:
    recorded = {"threads": {"setting": 2, "omp_num_threads": "2", "mkl_num_threads": None}}
    own = {"OMP_NUM_THREADS": "16", "MKL_NUM_THREADS": "16", "PATH": "/bin"}

    found = shards.thread_variables(recorded, own)

    assert found == {"OMP_NUM_THREADS": "2", "PATH": "/bin"}
    assert set(environment.THREAD_VARIABLES) >= {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}


@given(rows=st.integers(1, 60), count=st.integers(1, 60))
def test_every_prompt_is_dealt_once_and_evenly(rows: int, count: int) -> None:
    prompts = pa.table({"prompt_id": [f"p{i}" for i in range(rows)]})
    if count > rows:
        with pytest.raises(ConfigError, match="prompts can be dealt"):
            shards.dealt(prompts, 0, count)
        return

    parts = [shards.dealt(prompts, i, count).column(0).to_pylist() for i in range(count)]

    assert sorted(name for part in parts for name in part) == sorted(prompts[0].to_pylist())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("index", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_a_shard_that_is_none_is_refused(index: int, count: int) -> None:
    with pytest.raises(ConfigError, match=f"shard {index} of {count}"):
        shards.dealt(pa.table({"prompt_id": ["p0", "p1", "p2"]}), index, count)
