"""Who is asked for signatures, how often, and what happens when nobody answers."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Crashed, Pending

from pipelines.flows import asking
from specdecode.governance.ladder_actions import AskApproval, Hold

DIGEST = "a" * 64
OPTIONS = SimpleNamespace(model_dump=lambda mode: {"plan": "plans/default.yaml"})


@pytest.fixture
def prefect(monkeypatch, caplog):
    """A Prefect server: runs by idempotency key."""
    runs = {}

    def run_deployment(name, *, parameters, timeout, idempotency_key, as_subflow):
        assert (name, timeout, as_subflow) == ("approval/approval", 0, False)
        assert parameters["verdict_sha256"] == DIGEST
        return runs.setdefault(idempotency_key, SimpleNamespace(state=Pending()))

    monkeypatch.setattr(asking, "run_deployment", run_deployment)
    monkeypatch.setattr(asking, "get_run_logger", lambda: logging.getLogger("flow"))
    caplog.set_level(logging.WARNING)
    return runs


def look(action):
    return SimpleNamespace(action=action)


def missing():
    return look(
        AskApproval(verdict_sha256=DIGEST, roles=("release manager",), reason="one", owner="Ada")
    )


def ask(found):
    asking.ask_people(found, OPTIONS, "approval/approval")


def test_while_one_run_waits_there_is_no_other(prefect):
    for _ in range(3):
        ask(missing())
    assert len(prefect) == 1


@pytest.mark.parametrize("end", [Completed, Crashed])
def test_a_run_that_ended_unsigned_is_followed_by_another(prefect, end):
    ask(missing())
    for run in prefect.values():
        run.state = end()
    ask(missing())
    ask(missing())
    assert [run.state.is_final() for run in prefect.values()] == [True, False]


def test_runs_that_always_end_are_left_to_people(prefect, caplog):
    for number in range(asking.MOST_RUNS):
        prefect[f"approval-{DIGEST}-{number}"] = SimpleNamespace(state=Crashed())
    ask(missing())
    assert len(prefect) == asking.MOST_RUNS
    assert "is not signed yet" in caplog.text


def test_nobody_is_asked_where_nothing_is_missing(prefect):
    ask(look(Hold(reason="no alarm", owner="Ada")))
    asking.ask_people(missing(), OPTIONS, None)
    assert prefect == {}


def test_without_the_deployment_the_flow_goes_on(prefect, monkeypatch, caplog):
    def absent(*_arguments, **_options):
        raise ObjectNotFound(LookupError("no such deployment"))

    monkeypatch.setattr(asking, "run_deployment", absent)
    ask(missing())
    assert "there is no deployment approval/approval" in caplog.text
