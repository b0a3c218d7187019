"""MLflow runs in a store of their own."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest

from pipelines.stages import track
from pipelines.tracking import RunContent, Store, record, store_of

PARENT = RunContent(
    name="full 0123",
    identity={"evaluation.manifest_sha256": "m1", "evaluation.part": "parent"},
    tags={"gate.verdict": "GO"},
    params={"target.source": "tiny"},
    metrics={"prompts": 12},
)
CHILD = RunContent(
    name="block",
    identity={"evaluation.manifest_sha256": "m1", "evaluation.part": "block"},
    metrics={"speed_ratio": 1.4, "quality": None, "audit.e_value": float("inf")},
)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Setting up the tables takes seconds, so it is done once."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(tmp_path: Path, empty_database: Path) -> Store:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return store_of(tmp_path, environ={})


def runs(store: Store) -> list:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store.uri)
    experiment = client.get_experiment_by_name("specdecode")
    return client.search_runs([experiment.experiment_id])


def test_an_evaluation_is_a_parent_with_one_child_an_arm(store: Store, tmp_path: Path) -> None:
    page = tmp_path / "evaluation.html"
    page.write_text("<p>verdict</p>")
    parent = RunContent(**{**vars(PARENT), "artifacts": (page,)})

    ids = record(store, parent, [CHILD])

    found = {run.info.run_id: run for run in runs(store)}
    assert set(found) == set(ids.values())
    assert found[ids["parent"]].data.tags["gate.verdict"] == "GO"
    assert found[ids["parent"]].info.status == "FINISHED"
    assert found[ids["block"]].data.tags["mlflow.parentRunId"] == ids["parent"]
    assert (tmp_path / "mlartifacts" / ids["parent"] / "artifacts/evaluation.html").is_file()


def test_a_number_without_data_is_left_out_and_never_zero(store: Store) -> None:
    ids = record(store, PARENT, [CHILD])

    block = next(run for run in runs(store) if run.info.run_id == ids["block"])
    assert block.data.metrics == {"speed_ratio": 1.4}


def test_tracking_the_same_evaluation_again_refreshes_its_runs(store: Store) -> None:
    first = record(store, PARENT, [CHILD])
    again = RunContent(**{**vars(PARENT), "tags": {"gate.verdict": "NO_GO"}})

    second = record(store, again, [CHILD])

    assert second == first
    assert len(runs(store)) == 2
    assert {r.data.tags.get("gate.verdict") for r in runs(store)} == {"NO_GO", None}


def test_other_inputs_are_another_evaluation(store: Store) -> None:
    first = record(store, PARENT, [])
    other = RunContent(
        name="full 4567",
        identity={"evaluation.manifest_sha256": "m2", "evaluation.part": "parent"},
    )

    assert record(store, other, []) != first
    assert len(runs(store)) == 2


def test_ambient_run_ids_and_old_file_stores_are_ignored(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    (tmp_path / "mlruns/0").mkdir(parents=True)
    (tmp_path / "mlruns/0/meta.yaml").write_text("name: Default\n")

    ids = record(store, PARENT, [CHILD])

    assert "0" * 32 not in ids.values()
    assert len(runs(store)) == 2


def _write(uri: str, artifacts: str, lock: str, name: str) -> None:
    own = RunContent(name=name, identity={"evaluation.part": name})
    record(Store(uri, artifacts, Path(lock)), own, [])


@pytest.mark.slow
def test_two_writers_may_start_on_an_empty_store_at_once(tmp_path: Path) -> None:
    store = store_of(tmp_path, environ={})
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_write, args=(store.uri, store.artifacts, str(store.lock), f"r{i}"))
        for i in range(2)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(runs(store)) == 2


def test_the_store_can_be_moved_by_one_variable(tmp_path: Path) -> None:
    elsewhere = store_of(tmp_path, environ={"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/x/m.db"})
    server = store_of(tmp_path, environ={"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"})

    assert elsewhere.lock == tmp_path / "x/m.db.lock"
    assert server == Store("http://127.0.0.1:1", None, None)


def test_settings_are_flattened_to_dotted_names() -> None:
    assert dict(track.flat({"target": {"source": "x"}, "arms": ["plain"], "threads": None})) == {
        "target.source": "x",
        "arms": "['plain']",
        "threads": "None",
    }
