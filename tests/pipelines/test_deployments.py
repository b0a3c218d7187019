"""What a server is to hold, worked out without one."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import jinja2
import pytest
import yaml
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse, GlobalConcurrencyLimitResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL, temporary_settings

from pipelines.deployments import __main__ as command
from pipelines.deployments.automations import ROLLBACK, ROLLBACK_PARAMETERS, wanted_automations
from pipelines.deployments.deployed import (
    as_people_left_it,
    differences,
    full_name,
    wanted_deployments,
)
from pipelines.deployments.settings import settings_for
from specdecode.errors import ConfigError, MissingPrerequisiteError
from tests.pipelines.prefect_server import ROOT, small_repository
from tests.pipelines.test_deployments_kubernetes import settings

URL = {"PREFECT_API_URL": "http://127.0.0.1:1/api"}
ENTRIES: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
NAMES = [entry["name"] for entry in ENTRIES]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return small_repository(tmp_path / "repository")


# --- settings ----------------------------------------------------------------------------------


def test_the_owner_who_is_told_is_the_plans(repository: Path) -> None:
    plan = yaml.safe_load((ROOT / "plans/default.yaml").read_text())

    assert settings_for(repository, environ=URL, gpus=0).owner == plan["owner"]


def test_without_a_server_it_says_how_to_get_one(repository: Path) -> None:
    with pytest.raises(MissingPrerequisiteError, match="prefect server start"):
        settings_for(repository, environ={})


def test_elsewhere_than_in_the_repository_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisiteError, match=r"has no prefect\.yaml"):
        settings_for(tmp_path, environ=URL)


# --- deployments -------------------------------------------------------------------------------


@pytest.mark.parametrize("hardware", ["cpu", "gpu"])
def test_what_measures_goes_to_the_pool_of_the_hardware_and_the_rest_to_cpu(
    repository: Path, hardware: str
) -> None:
    entries = wanted_deployments(settings(root=repository, hardware=hardware))

    pools = {entry["name"]: entry["work_pool"]["name"] for entry in entries}
    measuring = {"nightly", "confirmation"}
    assert {pools[name] for name in measuring} == {hardware}
    assert {pool for name, pool in pools.items() if name not in measuring} == {"cpu"}


def test_a_definition_has_another_version_when_its_flow_or_its_entry_changes(
    repository: Path,
) -> None:
    def versions() -> dict[str, str]:
        entries = wanted_deployments(settings(root=repository))
        return {entry["name"]: entry["version"] for entry in entries}

    first = versions()
    flow = repository / "pipelines/flows/watch.py"
    flow.write_text(flow.read_text() + "\n# changed\n")
    second = versions()
    file = repository / "prefect.yaml"
    file.write_text(file.read_text().replace("0 2 * * *", "0 3 * * *"))
    third = versions()

    assert {name for name in first if first[name] != second[name]} == {"watch"}
    assert {name for name in first if second[name] != third[name]} == {"nightly"}


def test_a_flow_whose_file_is_not_there_is_named(repository: Path) -> None:
    (repository / "pipelines/flows/watch.py").unlink()

    with pytest.raises(MissingPrerequisiteError, match=r"'watch' is of .*watch\.py"):
        wanted_deployments(settings(root=repository))


@pytest.mark.parametrize("text", ["", "deployments: 3", "deployments: [{name: x}]", "a: [b"])
def test_a_prefect_yaml_that_is_none_is_refused(repository: Path, text: str) -> None:
    (repository / "prefect.yaml").write_text(text)

    with pytest.raises(ConfigError, match="not a list of deployments"):
        wanted_deployments(settings(root=repository))


def found_like(entry: dict[str, Any], **changes: Any) -> DeploymentResponse:
    """What a server says of a deployment that is as wanted."""
    limit = (entry.get("concurrency_limit") or {}).get("limit")
    words: dict[str, Any] = {
        "name": entry["name"],
        "flow_id": uuid4(),
        "version": entry["version"],
        "work_pool_name": entry["work_pool"]["name"],
        "entrypoint": entry["entrypoint"],
        "parameters": entry.get("parameters", {}),
        "tags": entry["tags"],
        "labels": {},
        "schedules": [scheduled(given) for given in entry.get("schedules", [])],
    }
    if limit:
        words["global_concurrency_limit"] = GlobalConcurrencyLimitResponse(
            name="x", limit=limit, active_slots=0
        )
    return DeploymentResponse(**words | changes)


def scheduled(given: dict[str, Any]) -> DeploymentSchedule:
    if "cron" in given:
        return DeploymentSchedule(schedule=CronSchedule(cron=given["cron"], timezone="UTC"))
    return DeploymentSchedule(
        schedule=IntervalSchedule(interval=timedelta(seconds=given["interval"]))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_deployment_as_wanted_differs_in_nothing(repository: Path, name: str) -> None:
    entries = wanted_deployments(settings(root=repository))
    [entry] = [entry for entry in entries if entry["name"] == name]

    assert differences(entry, found_like(entry)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": "other"}, "definition"),
        ({"work_pool_name": "other"}, "work pool"),
        ({"entrypoint": "other.py:flow"}, "entrypoint"),
        ({"parameters": {"profile": "smoke"}}, "parameters"),
        ({"tags": []}, "tags"),
        ({"global_concurrency_limit": None}, "limit"),
        ({"schedules": []}, "schedules"),
        ({"schedules": [scheduled({"cron": "1 1 * * *"})]}, "schedules"),
    ],
    ids=range(8),
)
def test_what_differs_is_named(repository: Path, changes: dict[str, Any], expected: str) -> None:
    entries = wanted_deployments(settings(root=repository))
    [entry] = [entry for entry in entries if entry["name"] == "nightly"]

    assert differences(entry, found_like(entry, **changes)) == [expected]


def test_deployed_again_it_is_paused_and_scheduled_as_people_left_it(repository: Path) -> None:
    entries = wanted_deployments(settings(root=repository))
    [entry] = [entry for entry in entries if entry["name"] == "canary"]
    on = [scheduled(given).model_copy(update={"active": True}) for given in entry["schedules"]]

    kept = as_people_left_it(entry, found_like(entry, paused=True, schedules=on))
    other = as_people_left_it(entry, found_like(entry, schedules=[]))

    assert (kept["paused"], kept["schedules"]) == (True, [{"interval": 60, "active": True}])
    assert (other["paused"], other["schedules"]) == (False, entry["schedules"])


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_a_deployment_is_of_a_flow_that_is_there_and_takes_its_parameters(
    entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    flow = load_flow_from_entrypoint(entry["entrypoint"])

    assert full_name(entry) == f"{flow.name}/{entry['name']}"
    flow.validate_parameters({**defaults(flow), **(entry.get("parameters") or {})})


def defaults(flow: Any) -> dict[str, Any]:
    """What a person gives when starting a flow by hand, beside what has a default."""
    by_hand = {"keys": ["a.key"], "verdict_sha256": "a" * 64}
    return {name: by_hand[name] for name in flow.parameters.required or [] if name in by_hand}


def test_only_flows_started_by_hand_or_by_another_flow_need_more_parameters() -> None:
    needing = set()
    for entry in ENTRIES:
        flow = load_flow_from_entrypoint(str(ROOT / entry["entrypoint"]))
        given = entry.get("parameters") or {}
        if set(flow.parameters.required or []) - set(given):
            needing.add(entry["name"])
        assert entry["name"] not in needing or "schedules" not in entry

    assert needing == {"confirmation", "approval"}


# --- automations -------------------------------------------------------------------------------


def test_the_roll_back_takes_what_the_automation_gives_it() -> None:
    [entry] = [entry for entry in ENTRIES if full_name(entry) == ROLLBACK]

    flow = load_flow_from_entrypoint(str(ROOT / entry["entrypoint"]))

    assert set(ROLLBACK_PARAMETERS) <= set(flow.parameters.properties)
    assert set(flow.parameters.required or []) <= set(ROLLBACK_PARAMETERS)


def test_without_a_webhook_users_are_protected_all_the_same() -> None:
    deployment = UUID(int=1)

    alone = wanted_automations(rollback=deployment, webhook=None, owner="o")
    told = wanted_automations(rollback=deployment, webhook=UUID(int=2), owner="o")

    assert [automation.name for automation in alone] == [a.name for a in told[: len(alone)]]
    assert alone[1].actions[0].deployment_id == deployment
    assert len(told) == len(alone) + 2


def test_every_automation_looks_at_this_project_only() -> None:
    for automation in wanted_automations(
        rollback=UUID(int=1), webhook=UUID(int=2), owner='the "owner"'
    ):
        trigger = automation.trigger
        ours = all(name.startswith("specdecode.") for name in trigger.expect)
        tagged = "prefect.tag.specdecode" in str(trigger.match_related)
        assert ours or tagged, automation.name


@pytest.mark.parametrize("owner", ["a", 'the "owner"', "back\\slash\\", "{{ x }}", "}}", "Zoë 🦀"])
def test_whatever_the_owner_is_called_the_message_names_them(owner: str) -> None:
    automations = wanted_automations(rollback=UUID(int=1), webhook=UUID(int=2), owner=owner)
    [payload] = [a.actions[0].payload for a in automations if "runs that crashed" in a.name]
    state = {"name": "Crashed", "message": None}

    text = jinja2.Template(payload).render(
        flow={"name": "canary"}, flow_run={"name": "merry-run", "state": state}
    )

    said = "Flow run merry-run of canary: Crashed. \n"
    assert json.loads(text) == {"text": f"{said}Owner: {owner}"}


# --- command line ------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_named(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PREFECT_API_URL", URL["PREFECT_API_URL"])

    with temporary_settings({PREFECT_API_URL: URL["PREFECT_API_URL"]}):
        assert command.main(["apply", "--gpus", "0"]) == 1

    assert f"no Prefect server answers at {URL['PREFECT_API_URL']}" in capsys.readouterr().err


def test_without_a_server_named_the_command_is_wrong_usage(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)

    assert command.main(["apply"]) == 2
    assert "error: PREFECT_API_URL is not set" in capsys.readouterr().err
