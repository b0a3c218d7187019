"""Looks at a release in MLflow: what is shown, and that nothing of it hinders a release."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from pipelines.flows import tracked
from pipelines.flows.look import Look
from pipelines.flows.tracked import EVERY_S, LookLog
from pipelines.tracking.content import RunContent
from pipelines.tracking.evaluation import RELEASE
from pipelines.tracking.store import URI, alone, store_of
from pipelines.tracking.write import record
from specdecode.governance.ladder_actions import Hold, Stop
from specdecode.governance.verdict import Status
from tests.pipelines.releases import MANIFEST, short_plan, world

MAY = ("shadow", "canary", "full")
PLAN = short_plan().name


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def uri(tmp_path, empty_database):
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


def log_of(uri, clock=lambda: 0.0, manifest=None):
    registry = None if uri is None else SimpleNamespace(uri=uri)
    options = SimpleNamespace(registry=registry, manifest=manifest)
    return LookLog(options, logging.getLogger("flow"), clock)


def runs(uri):
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(PLAN)
    found = [] if experiment is None else client.search_runs([experiment.experiment_id])
    return client, {run.info.run_name: run for run in found}


def climbed(own, log):
    looks = []
    for _ in range(40):
        looks.append(own.look(*MAY))
        log.add(looks[-1])
        if looks[-1].ended or looks[-1].arrived:
            return looks
    raise AssertionError(looks[-1].action.reason)


def test_each_step_of_a_release_is_a_run_with_its_sequences(tmp_path, uri):
    own = world(tmp_path, plan=short_plan())
    looks = climbed(own, log_of(uri))
    client, found = runs(uri)

    places = {str(look.place) for look in looks if look.verdict and look.verdict.rows}
    assert set(found) == places | {f"release {MANIFEST[:8]}"}
    release = found[f"release {MANIFEST[:8]}"]
    last = next(look for look in reversed(looks) if look.verdict and look.verdict.rows)
    assert release.data.tags["gate.stage"] == str(last.place)
    assert release.data.tags["gate.verdict"] == last.verdict.status.value
    for place in places:
        run = found[place]
        assert run.data.tags["mlflow.parentRunId"] == release.info.run_id
        assert run.data.tags["run.kind"] == "stage"
        judged = [look.verdict for look in looks if str(look.place) == place and look.verdict][-1]
        step = place.partition(" ")[2]
        where = f"step={step}" if step else None
        rules = [rule for rule in judged.rules if rule.role != "integrity" and rule.n]
        shown = [rule for rule in rules if rule.stratum == where and rule.low is not None]
        assert shown
        for rule in shown:
            points = client.get_metric_history(run.info.run_id, f"gate.{rule.name}.low")
            assert (points[-1].step, points[-1].value) == (rule.n, rule.low)


def test_the_release_that_an_evaluation_named_keeps_its_name(tmp_path, uri):
    named = RunContent(
        key=RELEASE,
        name="self-int4 0123",
        identity={"release.manifest_sha256": MANIFEST, "release.part": RELEASE},
        metrics={"gate.speed_ratio": 1.4},
    )
    record(store_of(tmp_path, {URI: uri}), named, experiment=PLAN)
    climbed(world(tmp_path / "own", plan=short_plan()), log_of(uri))
    _, found = runs(uri)

    assert f"release {MANIFEST[:8]}" not in found
    assert found["self-int4 0123"].data.metrics["gate.speed_ratio"] == 1.4
    assert found["self-int4 0123"].data.tags["gate.stage"] != "offline"


def test_the_same_word_again_is_left_out_for_a_while(tmp_path, uri):
    now = [0.0]
    log = log_of(uri, lambda: now[0])
    found = next(look for look in climbed(world(tmp_path, plan=short_plan()), log_of(None))
                 if look.verdict and look.verdict.rows)  # fmt: skip
    noted = []
    for at in (0.0, 1.0, EVERY_S + 1):
        now[0] = at
        log.add(found)
        noted.append(max(run.info.end_time for run in runs(uri)[1].values()))

    assert noted[0] == noted[1] < noted[2]


@pytest.mark.parametrize("away", ["http://user:x@127.0.0.1:nowhere", "nosuch://nowhere"])
def test_a_store_that_is_none_hinders_nothing(tmp_path, caplog, away):
    caplog.set_level(logging.WARNING)
    looks = climbed(world(tmp_path, plan=short_plan()), log_of(away))

    assert looks[-1].ended or looks[-1].arrived
    assert "this look is not shown in MLflow" in caplog.text


def test_a_store_that_answers_nobody_is_waited_for_only_so_long(tmp_path, uri, caplog, monkeypatch):
    """Another writer has its lock and does not let go."""
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(tracked, "WAIT_S", 0.05)
    with alone(store_of(tmp_path, {URI: uri})):
        looks = climbed(world(tmp_path / "own", plan=short_plan()), log_of(uri))

    assert looks[-1].ended or looks[-1].arrived
    assert caplog.text.count("going on") == 1  # while it waits, no second one is begun


def test_a_verdict_that_names_no_inputs_is_shown_at_the_release(tmp_path, uri):
    """Rows that cannot be read stop a release; MLflow must not go on showing the GO of before."""
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"manifest_sha256": MANIFEST}))
    log = log_of(uri, manifest=manifest)
    good = next(look for look in climbed(world(tmp_path / "own", plan=short_plan()), log_of(None))
                if look.verdict and look.verdict.rows)  # fmt: skip
    log.add(good)
    broken = good.verdict.model_copy(update={"status": Status.INVALID, "manifest_sha256": None})
    log.add(replace(good, verdict=broken, action=Stop(reason="unreadable", owner="Ada")))
    tags = runs(uri)[1][f"release {MANIFEST[:8]}"].data.tags

    assert (tags["gate.verdict"], tags["gate.action"]) == ("INVALID", "Stop")


def test_without_a_verdict_or_a_registry_there_is_nothing_to_show(tmp_path, uri):
    log_of(uri).add(Look(Hold(reason="the router does not answer", owner="Ada")))
    assert runs(uri)[1] == {}
    climbed(world(tmp_path, plan=short_plan()), log_of(None))
