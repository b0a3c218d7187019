"""Looks at a release in MLflow: what is shown, and that nothing of it hinders a release."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from pipelines.flows import tracked
from pipelines.flows.assembling import keep_for_mlflow
from pipelines.flows.kept_looks import kept_looks
from pipelines.flows.look import Look
from pipelines.flows.tracked import EVERY_S, LookLog
from pipelines.tracking import write
from pipelines.tracking.content import RunContent
from pipelines.tracking.evaluation import RELEASE
from pipelines.tracking.store import URI, alone, store_of
from pipelines.tracking.write import record
from specdecode.governance.ladder_actions import Hold, RollBack, Stop
from specdecode.governance.verdict import Status
from tests.pipelines.releases import MANIFEST, broken, short_plan, world

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


def options_of(folder, uri, manifest=None):
    registry = None if uri is None else SimpleNamespace(uri=uri)
    return SimpleNamespace(registry=registry, manifest=manifest, records=folder / "releases")


def log_of(folder, uri, clock=lambda: 0.0, manifest=None):
    return LookLog(options_of(folder, uri, manifest), logging.getLogger("flow"), clock)


def runs(uri):
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(PLAN)
    found = [] if experiment is None else client.search_runs([experiment.experiment_id])
    return client, {run.info.run_name: run for run in found}


def refused(*_, **__):
    raise OSError("MLflow is away")


def with_more(look, more):
    """The same look after so many requests more."""
    rules = [
        rule if rule.role == "integrity" else rule.model_copy(update={"n": rule.n + more})
        for rule in look.verdict.rules
    ]
    changes = {"rules": rules, "rows": look.verdict.rows + more}
    return replace(look, verdict=look.verdict.model_copy(update=changes))


def climbed(own, log):
    looks = []
    for _ in range(40):
        looks.append(own.look(*MAY))
        log.add(looks[-1])
        if looks[-1].ended or looks[-1].arrived:
            return looks
    raise AssertionError(looks[-1].action.reason)


def a_look(tmp_path):
    looks = climbed(world(tmp_path / "one", plan=short_plan()), log_of(tmp_path, None))
    return next(look for look in looks if look.verdict and look.verdict.rows)


def all_shown(uri, looks):
    """Each step is a run with its sequences, and the release is where its last look saw it."""
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


def test_each_step_of_a_release_is_a_run_with_its_sequences(tmp_path, uri):
    all_shown(uri, climbed(world(tmp_path, plan=short_plan()), log_of(tmp_path, uri)))


def test_the_release_that_an_evaluation_named_keeps_its_name(tmp_path, uri):
    named = RunContent(
        key=RELEASE,
        name="self-int4 0123",
        identity={"release.manifest_sha256": MANIFEST, "release.part": RELEASE},
        metrics={"gate.speed_ratio": 1.4},
    )
    record(store_of(tmp_path, {URI: uri}), named, experiment=PLAN)
    climbed(world(tmp_path / "own", plan=short_plan()), log_of(tmp_path, uri))
    _, found = runs(uri)

    assert f"release {MANIFEST[:8]}" not in found
    assert found["self-int4 0123"].data.metrics["gate.speed_ratio"] == 1.4
    assert found["self-int4 0123"].data.tags["gate.stage"] != "offline"


def test_the_same_word_again_is_left_out_for_a_while(tmp_path, uri):
    now = [0.0]
    log = log_of(tmp_path, uri, lambda: now[0])
    found = a_look(tmp_path)
    noted = []
    for at in (0.0, 1.0, EVERY_S + 1):
        now[0] = at
        log.add(found)
        noted.append(max(run.info.end_time for run in runs(uri)[1].values()))

    assert noted[0] == noted[1] < noted[2]


@pytest.mark.parametrize("away", ["http://user:x@127.0.0.1:nowhere", "nosuch://nowhere"])
def test_a_store_that_is_none_hinders_nothing(tmp_path, caplog, away):
    caplog.set_level(logging.WARNING)
    looks = climbed(world(tmp_path, plan=short_plan()), log_of(tmp_path, away))

    assert looks[-1].ended or looks[-1].arrived
    assert "this look is not shown in MLflow" in caplog.text


def test_a_run_that_mlflow_stayed_away_from_says_so_and_another_one_catches_up(
    tmp_path, uri, caplog, monkeypatch
):
    caplog.set_level(logging.WARNING)
    with monkeypatch.context() as away:
        away.setattr(write, "record", refused)
        with log_of(tmp_path, uri) as log:
            looks = climbed(world(tmp_path / "own", plan=short_plan()), log)
    assert runs(uri)[1] == {}
    assert f"kept in {tmp_path / 'releases'}" in caplog.text

    with log_of(tmp_path, uri) as later:  # whatever it sees itself
        later.add(Look(Hold(reason="the router does not answer", owner="Ada")))
    all_shown(uri, looks)
    assert len(kept_looks(options_of(tmp_path, uri))) == 0


def test_a_look_that_cannot_be_written_keeps_back_its_own_release_only(
    tmp_path, uri, caplog, monkeypatch
):
    """Of one release a newer look must not come before: the older one would then be the last."""

    def choosy(store, content, **options):
        if content.identity["release.manifest_sha256"] == MANIFEST and away:
            raise OSError("not this one")
        return record(store, content, **options)

    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(write, "record", choosy)
    away, good = True, a_look(tmp_path)
    stopped = replace(good, action=Stop(reason="unreadable", owner="Ada"))
    other = good.verdict.model_copy(update={"manifest_sha256": "b" * 64})
    with log_of(tmp_path, uri) as log:
        for look in (good, stopped, replace(good, verdict=other)):
            log.add(look)
    assert {"release bbbbbbbb"} == {name for name in runs(uri)[1] if name.startswith("release")}
    assert "the last looks at 1 steps" in caplog.text

    away = False
    with log_of(tmp_path, uri) as log:
        log.add(Look(Hold(reason="the router does not answer", owner="Ada")))
    assert runs(uri)[1][f"release {MANIFEST[:8]}"].data.tags["gate.action"] == "Stop"


def test_a_store_that_answers_nobody_is_waited_for_only_so_long(tmp_path, uri, caplog, monkeypatch):
    """Another writer has its lock and does not let go."""
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(tracked, "WAIT_S", 0.05)
    with alone(store_of(tmp_path, {URI: uri})):
        looks = climbed(world(tmp_path / "own", plan=short_plan()), log_of(tmp_path, uri))

    assert looks[-1].ended or looks[-1].arrived
    assert caplog.text.count("going on") == 1  # while it waits, no second one is begun
    monkeypatch.setattr(tracked, "WAIT_S", 60.0)
    with log_of(tmp_path, uri) as later:
        later.add(Look(Hold(reason="the router does not answer", owner="Ada")))
    all_shown(uri, looks)


def test_looks_that_mlflow_was_too_busy_for_are_points_of_its_charts(tmp_path, uri, monkeypatch):
    monkeypatch.setattr(tracked, "WAIT_S", 0.05)
    first, now = a_look(tmp_path), [0.0]
    with alone(store_of(tmp_path, {URI: uri})), log_of(tmp_path, uri, lambda: now[0]) as log:
        for more in range(5):
            now[0] += EVERY_S + 1
            log.add(with_more(first, more))
    monkeypatch.setattr(tracked, "WAIT_S", 60.0)
    with log_of(tmp_path, uri) as later:
        later.add(with_more(first, 5))

    client, found = runs(uri)
    run = found[str(first.place)].info.run_id
    n = next(rule.n for rule in first.verdict.rules if rule.name == "error_rate")
    history = client.get_metric_history(run, "gate.error_rate")
    assert [point.step for point in history] == [n + more for more in range(6)]


def test_the_last_look_of_a_run_is_shown_though_it_says_what_the_one_before_said(tmp_path, uri):
    first = a_look(tmp_path)
    with log_of(tmp_path, uri) as log:
        log.add(first)
        log.add(with_more(first, 7))
        assert runs(uri)[1][str(first.place)].data.metrics["rows"] == first.verdict.rows

    assert runs(uri)[1][str(first.place)].data.metrics["rows"] == first.verdict.rows + 7


def test_a_way_back_whose_look_fails_on_the_way_is_shown(tmp_path, uri):
    """Where MLflow was away for the alias, nobody heard any more what the look had come to."""
    options = options_of(tmp_path, uri)
    own = world(tmp_path / "own", plan=short_plan(), truths={"canary": broken})
    own.changes["show"] = partial(keep_for_mlflow, options, logging.getLogger("flow"))
    own.registry.demote = refused

    with pytest.raises(OSError, match="away"), log_of(tmp_path, uri) as log:
        climbed(own, log)

    tags = runs(uri)[1][f"release {MANIFEST[:8]}"].data.tags
    assert own.router.state.mode == "off"
    assert (tags["gate.verdict"], tags["gate.action"]) == ("NO_GO", "RollBack")


def test_what_cannot_be_kept_for_mlflow_is_said_and_hinders_no_way_back(tmp_path, uri, caplog):
    caplog.set_level(logging.WARNING)
    (tmp_path / "releases").write_text("no folder")
    own = world(tmp_path / "own", plan=short_plan(), truths={"canary": broken})
    options = options_of(tmp_path, uri)
    own.changes["show"] = partial(keep_for_mlflow, options, logging.getLogger("flow"))
    with log_of(tmp_path, uri) as log:
        looks = climbed(own, log)

    assert isinstance(looks[-1].action, RollBack)
    assert "not kept for MLflow" in caplog.text
    assert "cannot be kept for it" in caplog.text


def test_a_verdict_that_names_no_inputs_is_shown_at_the_release(tmp_path, uri):
    """Rows that cannot be read stop a release; MLflow must not go on showing the GO of before."""
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"manifest_sha256": MANIFEST}))
    log = log_of(tmp_path, uri, manifest=manifest)
    good = a_look(tmp_path)
    log.add(good)
    broken = good.verdict.model_copy(update={"status": Status.INVALID, "manifest_sha256": None})
    log.add(replace(good, verdict=broken, action=Stop(reason="unreadable", owner="Ada")))
    tags = runs(uri)[1][f"release {MANIFEST[:8]}"].data.tags

    assert (tags["gate.verdict"], tags["gate.action"]) == ("INVALID", "Stop")


def test_without_a_verdict_or_a_registry_there_is_nothing_to_show(tmp_path, uri):
    log_of(tmp_path, uri).add(Look(Hold(reason="the router does not answer", owner="Ada")))
    assert runs(uri)[1] == {}
    climbed(world(tmp_path, plan=short_plan()), log_of(tmp_path, None))
