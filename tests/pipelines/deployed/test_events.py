"""What a server does by itself about verdicts, crashes and silence."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter
from prefect.events.schemas.automations import AutomationCore
from prefect.states import Crashed, Running, State

from tests.pipelines.prefect_server import Duty, Served, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OWNER = "release manager of the inference service"
VERDICT = {
    "status": "NO_GO",
    "plan_name": "a-plan",
    "manifest_sha256": "b" * 64,
    "rows_sha256": "c" * 64,
    "reasons": ['block-errors: 3 of 100 requests failed, "timeout"'],
}


def emit(served: Served, **words: Any) -> None:
    script = (
        "import json, sys; from pipelines.flows.events import emit_verdict; "
        "words = json.loads(sys.argv[1]); emit_verdict(words.pop('verdict'), **words)"
    )
    given = {
        "verdict": VERDICT,
        "stage": "canary",
        "step": "0.05",
        "owner": OWNER,
        "recovery": "roll_back",
    }
    done = served.python("-c", script, json.dumps(given | words))
    assert done.returncode == 0, done.stderr


def rollbacks(client: SyncPrefectClient) -> list[Any]:
    deployment = client.read_deployment_by_name("rollback/rollback").id
    wanted = FlowRunFilter.model_validate({"deployment_id": {"any_": [str(deployment)]}})
    return client.read_flow_runs(flow_run_filter=wanted)


def test_a_no_go_starts_a_roll_back_of_that_release_and_tells_its_owner(
    client: SyncPrefectClient, served: Served, duty: Duty
) -> None:
    emit(served, verdict=VERDICT | {"status": "GO"})
    emit(served, stage="offline")  # no user has met it
    emit(served)

    [run] = eventually(lambda: rollbacks(client))
    assert run.parameters["manifest_sha256"] == "b" * 64
    assert run.parameters["reason"].startswith("NO_GO at canary 0.05: a-plan\n")
    # The offline NO_GO is told as well: it is of interest, though there is nothing to roll back.
    texts = sorted([duty.told(), duty.told()])
    assert texts[0].splitlines() == [
        "NO_GO at canary 0.05: a-plan",
        f"Owner: {OWNER}",
        "Recovery: roll_back",
        '- block-errors: 3 of 100 requests failed, "timeout"',
    ]
    assert texts[1].startswith("NO_GO at offline")
    assert len(rollbacks(client)) == 1


def test_told_twice_it_rolls_back_once(client: SyncPrefectClient, served: Served) -> None:
    before = len(rollbacks(client))
    other = VERDICT | {"rows_sha256": "d" * 64}

    emit(served)  # heard before
    emit(served, verdict=other)

    eventually(lambda: len(rollbacks(client)) > before)
    assert len(rollbacks(client)) == before + 1


def test_a_run_that_crashed_is_told_with_the_owner(
    client: SyncPrefectClient, served: Served, duty: Duty
) -> None:
    while not duty.heard.empty():
        duty.heard.get()
    deployment = client.read_deployment_by_name("canary/canary")
    run = client.create_flow_run_from_deployment(deployment.id)

    client.set_flow_run_state(run.id, Crashed(message='its "process" is gone'), force=True)

    texts = [duty.told()]
    while not texts[-1].startswith("Flow run"):
        texts.append(duty.told())
    assert texts[-1].splitlines() == [
        f'Flow run {run.name} of canary: Crashed. its "process" is gone',
        f"Owner: {OWNER}",
    ]


def test_silence_is_a_crash(client: SyncPrefectClient, served: Served) -> None:
    [found] = client.read_automations_by_name("specdecode: crash runs that have gone silent")
    assert found.trigger.within.total_seconds() == 3 * 180
    # The same with less patience, and one heartbeat of a run whose process will not be heard again
    words = found.model_dump(exclude={"id", "owner_resource"}) | {"name": "in a hurry"}
    words["trigger"] = words["trigger"] | {"within": timedelta(seconds=10)}
    hurried = client.create_automation(AutomationCore(**words))
    deployment = client.read_deployment_by_name("shadow/shadow")
    run = client.create_flow_run_from_deployment(deployment.id)
    client.set_flow_run_state(run.id, Running(), force=True)

    done = served.python("-c", HEARTBEAT, str(run.id))

    assert done.returncode == 0, done.stderr
    crashed = eventually(lambda: _crashed(client, run.id))
    assert "it goes on from what is on record" in crashed.message
    client.delete_automation(hurried)


HEARTBEAT = """
import sys
from prefect.events import emit_event

emit_event(
    "prefect.flow-run.heartbeat",
    resource={"prefect.resource.id": f"prefect.flow-run.{sys.argv[1]}"},
    related=[{"prefect.resource.id": "prefect.tag.specdecode", "prefect.resource.role": "tag"}],
)
"""


def _crashed(client: SyncPrefectClient, run: UUID) -> State[Any] | None:
    state = client.read_flow_run(run).state
    return state if state is not None and state.is_crashed() else None
