"""A real server after `python -m pipelines.deployments apply`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.schemas.automations import AutomationCore

from pipelines.deployments.deployed import full_name
from pipelines.deployments.pools import job_template
from pipelines.hardware import Hardware
from tests.pipelines.prefect_server import ROOT, Served
from tests.pipelines.test_deployments_kubernetes import settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ENTRIES: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


def snapshot(client: SyncPrefectClient) -> str:
    """All that `apply` sets up, with the times at which it was last changed."""
    parts: list[Any] = [
        *client.read_work_pools(),
        *client.read_global_concurrency_limits(limit=50),
        *client.read_deployments(),
        *client.read_automations(),
        client.read_block_document_by_name("specdecode-notify", "webhook"),
    ]
    moving = {"last_polled", "status", "active_slots"}
    return json.dumps([part.model_dump(mode="json", exclude=moving) for part in parts])


SLOT = """
from pathlib import Path
from prefect.client.orchestration import get_client
from pipelines.flows import measuring

measuring.gpus_here = lambda: 0
with measuring.measuring_slot(Path()), get_client(sync_client=True) as client:
    found = {limit.name: limit.active_slots for limit in client.read_global_concurrency_limits()}
    print(found.get("specdecode-cpu"))
"""


def test_on_a_server_without_limits_a_measurement_runs_all_the_same(served: Served) -> None:
    done = served.python("-c", SLOT)

    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
    assert "specdecode-cpu" in done.stderr  # it is told that there is no such limit


def test_pools_are_there_with_one_run_per_gpu(client: SyncPrefectClient) -> None:
    pools = {pool.name: pool for pool in client.read_work_pools()}

    assert (pools["gpu"].type, pools["gpu"].concurrency_limit) == ("process", 2)
    assert (pools["cpu"].type, pools["cpu"].concurrency_limit) == ("process", None)


def test_slots_of_measurements_are_there(client: SyncPrefectClient) -> None:
    assert client.read_global_concurrency_limit_by_name("specdecode-gpu").limit == 2
    assert client.read_global_concurrency_limit_by_name("specdecode-cpu").limit == 1


def test_a_measurement_holds_its_slot_and_gives_it_back(
    client: SyncPrefectClient, served: Served
) -> None:
    done = served.python("-c", SLOT)

    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert client.read_global_concurrency_limit_by_name("specdecode-cpu").active_slots == 0


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["name"] for entry in ENTRIES])
def test_a_deployment_is_as_prefect_yaml_says(
    client: SyncPrefectClient, served: Served, entry: dict[str, Any]
) -> None:
    found = client.read_deployment_by_name(full_name(entry))

    assert found.entrypoint == entry["entrypoint"]
    assert found.parameters == entry.get("parameters", {})
    assert "specdecode" in found.tags
    # decoding.device is auto, and two GPUs were named: what measures goes there, the rest does not
    assert found.work_pool_name == ("gpu" if "measures" in entry["tags"] else "cpu")
    [step] = found.pull_steps or []
    assert list(step.values()) == [{"directory": str(served.root)}]
    assert len(found.schedules) == len(entry.get("schedules", []))


def test_a_roll_back_queues_behind_nothing(client: SyncPrefectClient) -> None:
    assert client.read_deployment_by_name("rollback/rollback").global_concurrency_limit is None


def test_applied_again_nothing_changes(
    client: SyncPrefectClient, served: Served, said: list[str]
) -> None:
    before = snapshot(client)

    again = served.apply("--gpus", "2")

    assert len(said) == 2 + 2 + len(ENTRIES) + 1 + 4
    assert again == ["Everything is as it should be."]
    assert snapshot(client) == before


def test_what_was_changed_by_hand_is_put_right_and_what_was_paused_stays_paused(
    client: SyncPrefectClient, served: Served
) -> None:
    watch = client.read_deployment_by_name("watch/watch")
    [roll_back] = client.read_automations_by_name("specdecode: roll back")
    client.pause_automation(roll_back.id)
    client.pause_deployment(watch.id)
    client.upsert_global_concurrency_limit_by_name("specdecode-cpu", 7)
    words = roll_back.model_dump(exclude={"id", "owner_resource"})
    other = words | {"description": "changed", "enabled": False}
    client.update_automation(roll_back.id, AutomationCore(**other))

    said = served.apply("--gpus", "2")

    assert said == [
        "limit specdecode-cpu: 7 -> 1",
        "updated automation 'specdecode: roll back': description",
    ]
    assert client.read_deployment_by_name("watch/watch").paused
    [found] = client.read_automations_by_name("specdecode: roll back")
    assert (found.description, found.enabled) == (
        "NO_GO or INVALID where users are concerned: they get plain decoding again.",
        False,
    )
    client.resume_automation(roll_back.id)

    flow = served.root / "pipelines/flows/watch.py"
    flow.write_text(flow.read_text() + "\n# changed\n")
    assert served.apply("--gpus", "2") == ["deployed watch/watch again: definition"]
    assert client.read_deployment_by_name("watch/watch").paused
    client.resume_deployment(watch.id)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_a_server_accepts_the_job_template_of_kubernetes(
    client: SyncPrefectClient, served: Served, name: Hardware
) -> None:
    template = job_template(name, settings(root=served.root))

    client.create_work_pool(
        WorkPoolCreate(name=f"{name}-job", type="kubernetes", base_job_template=template)
    )

    assert client.read_work_pool(f"{name}-job").base_job_template == template


def test_a_pool_of_another_type_is_refused_with_the_way_out(
    client: SyncPrefectClient, served: Served
) -> None:
    done = served.python(
        *("-m", "pipelines.deployments", "apply", "--infrastructure", "kubernetes")
    )

    assert done.returncode == 2
    assert "prefect work-pool delete cpu" in done.stderr
