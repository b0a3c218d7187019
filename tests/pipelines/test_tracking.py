"""MLflow runs in a store of their own."""

from __future__ import annotations

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from pipelines.machine_load import Moment
from pipelines.tracking import RunContent, Store, record, store_of
from pipelines.tracking.content import flat
from specdecode.errors import ConfigError

ARM = RunContent(
    key="block",
    name="block",
    identity={"release.manifest_sha256": "m1", "release.part": "block"},
    metrics={"speed_ratio": 1.4, "quality": None, "audit.e_value": float("inf")},
    series={"audit.log_e_value": [(0, 0.0), (100, -0.5), (200, -1.0)]},
)
RELEASE = RunContent(
    key="release",
    name="self-int4 0123",
    identity={"release.manifest_sha256": "m1", "release.part": "release"},
    tags={"gate.verdict": "GO"},
    params={"target.source": "tiny"},
    metrics={"prompts": 12},
    children=[ARM],
)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Setting up the tables takes seconds, so it is done once."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(tmp_path: Path, empty_database: Path) -> Store:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return store_of(tmp_path, environ={})


def runs(store: Store, name: str = "specdecode") -> list:
    client = MlflowClient(tracking_uri=store.uri)
    experiment = client.get_experiment_by_name(name)
    return client.search_runs([experiment.experiment_id])


def test_runs_are_nested_as_their_contents_are(store: Store, tmp_path: Path) -> None:
    page = tmp_path / "evaluation.html"
    page.write_text("<p>verdict</p>")
    release = replace(RELEASE, artifacts=(page,))

    ids = record(store, release, experiment="a plan")

    found = {run.info.run_id: run for run in runs(store, "a plan")}
    assert set(ids) == {"release", "release/block"}
    assert set(found) == set(ids.values())
    assert found[ids["release"]].data.tags["gate.verdict"] == "GO"
    assert found[ids["release"]].info.status == "FINISHED"
    assert found[ids["release/block"]].data.tags["mlflow.parentRunId"] == ids["release"]
    assert (tmp_path / "mlartifacts" / ids["release"] / "artifacts/evaluation.html").is_file()


def test_a_number_without_data_is_left_out_and_never_zero(store: Store) -> None:
    ids = record(store, RELEASE)

    block = next(run for run in runs(store) if run.info.run_id == ids["release/block"])
    assert block.data.metrics == {"speed_ratio": 1.4, "audit.log_e_value": -1.0}


def test_tracking_the_same_evaluation_again_refreshes_its_runs(store: Store) -> None:
    first = record(store, RELEASE)
    again = replace(RELEASE, tags={"gate.verdict": "NO_GO"})

    second = record(store, again)

    assert second == first
    assert len(runs(store)) == 2
    assert {r.data.tags.get("gate.verdict") for r in runs(store)} == {"NO_GO", None}


def test_a_step_is_written_once_however_often_the_run_is(store: Store) -> None:
    ids = record(store, RELEASE)
    longer = replace(
        ARM, series={"audit.log_e_value": [*ARM.series["audit.log_e_value"], (300, -2.0)]}
    )

    record(store, replace(RELEASE, children=[longer]))

    client = MlflowClient(tracking_uri=store.uri)
    history = client.get_metric_history(ids["release/block"], "audit.log_e_value")
    assert [(point.step, point.value) for point in history] == [
        (0, 0.0),
        (100, -0.5),
        (200, -1.0),
        (300, -2.0),
    ]


def test_a_history_is_not_read_to_go_on_with_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows with every look, and reading all of it took longer each time."""
    moments = [Moment(1000 * step, step, {"system/load": float(step)}) for step in range(3)]
    lengths = (2, 5, 5)
    with monkeypatch.context() as blind:
        blind.setattr(MlflowClient, "get_metric_history", None)
        for length in lengths:
            steps = [(step, float(step)) for step in range(length)]
            ids = record(
                store,
                replace(RELEASE, series={"long": steps}, moments=moments[:length], children=()),
            )

    client = MlflowClient(tracking_uri=store.uri)
    for name, length in (("long", 5), ("system/load", 3)):
        history = client.get_metric_history(ids["release"], name)
        assert [point.step for point in history] == list(range(length))


def test_more_than_one_request_takes_arrives_whole(store: Store) -> None:
    many = replace(
        RELEASE,
        tags={f"sha256.{i}": "x" for i in range(120)},
        params={f"setting.{i}": "x" for i in range(120)},
        series={"evidence": [(step, float(step)) for step in range(1200)]},
        children=(),
    )

    ids = record(store, many)

    client = MlflowClient(tracking_uri=store.uri)
    run = client.get_run(ids["release"])
    assert len([name for name in run.data.tags if name.startswith("sha256.")]) == 120
    assert len(run.data.params) == 120
    assert len(client.get_metric_history(ids["release"], "evidence")) == 1200


def test_other_inputs_are_another_release(store: Store) -> None:
    first = record(store, replace(RELEASE, children=()))
    other = replace(
        RELEASE,
        name="self-int4 4567",
        identity={"release.manifest_sha256": "m2", "release.part": "release"},
        children=(),
    )

    assert record(store, other) != first
    assert len(runs(store)) == 2


def test_a_deleted_experiment_is_told_with_both_ways_out(store: Store) -> None:
    record(store, RELEASE, experiment="a plan")
    client = MlflowClient(tracking_uri=store.uri)
    client.delete_experiment(client.get_experiment_by_name("a plan").experiment_id)

    with pytest.raises(ConfigError, match=r"experiments restore --experiment-id 1.*mlflow gc"):
        record(store, RELEASE, experiment="a plan")


def test_ambient_run_ids_and_old_file_stores_are_ignored(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    (tmp_path / "mlruns/0").mkdir(parents=True)
    (tmp_path / "mlruns/0/meta.yaml").write_text("name: Default\n")

    ids = record(store, RELEASE)

    assert "0" * 32 not in ids.values()
    assert len(runs(store)) == 2


def _write(uri: str, artifacts: str, lock: str, name: str) -> None:
    own = RunContent(key=name, name=name, identity={"release.part": name})
    record(Store(uri, artifacts, Path(lock)), own)


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
    assert dict(flat({"target": {"source": "x"}, "arms": ["plain"], "threads": None})) == {
        "target.source": "x",
        "arms": "['plain']",
        "threads": "None",
    }
