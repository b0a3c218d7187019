"""Deployments, as prefect.yaml has them, in the pool that their hardware class asks for.

`prefect deploy` does the deploying; here is decided which ones differ. Deploying all of them each
time would replace their schedules and drop the runs that are waiting.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from pipelines.deployments.settings import TAG, Settings
from specdecode.errors import ConfigError, MissingPrerequisiteError

PREFECT = (sys.executable, "-m", "prefect")
MEASURES = "measures"
"""Tag of deployments that time something: they run in the pool of the hardware class."""


def wanted_deployments(settings: Settings) -> list[dict[str, Any]]:
    """The entries of prefect.yaml with pool, tags, pull step and version filled in.

    Raises:
        ConfigError: prefect.yaml is not what it should be.
        MissingPrerequisiteError: the file of a flow is not there.
    """
    path = settings.root / "prefect.yaml"
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["deployments"]
        return [_filled(dict(entry), settings) for entry in entries]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a list of deployments ({error!r})") from error


def _filled(entry: dict[str, Any], settings: Settings) -> dict[str, Any]:
    file = settings.root / str(entry["entrypoint"]).rsplit(":", 1)[0]
    if not file.is_file():
        raise MissingPrerequisiteError(
            f"prefect.yaml: deployment '{entry['name']}' is of {file}, which is not there"
        )
    tags = list(entry.get("tags") or [])
    if MEASURES in tags:
        entry["work_pool"] = {**entry["work_pool"], "name": settings.hardware}
    entry["tags"] = sorted({TAG, *tags})
    entry["pull"] = [
        {
            "prefect.deployments.steps.set_working_directory": {
                "directory": str(settings.working_directory)
            }
        }
    ]
    content = json.dumps(entry, sort_keys=True).encode() + file.read_bytes()
    entry["version"] = hashlib.sha256(content).hexdigest()[:16]
    return entry


def full_name(entry: Mapping[str, Any]) -> str:
    """The name on the server, flow/deployment; a flow is named after its function, with dashes."""
    function = str(entry["entrypoint"]).rsplit(":", 1)[1]
    return f"{function.replace('_', '-')}/{entry['name']}"


def apply_deployments(client: SyncPrefectClient, settings: Settings) -> Iterator[str]:
    """Deploys what is new or differs, and yields what was done.

    What a person paused stays paused, and a schedule that a person switched on or off stays so.

    Raises:
        RuntimeError: Prefect refused; shows what it printed.
    """
    due, said = [], []
    for entry in wanted_deployments(settings):
        try:
            found = client.read_deployment_by_name(full_name(entry))
        except ObjectNotFound:
            due.append(entry)
            said.append(f"deployed {full_name(entry)} to pool {entry['work_pool']['name']}")
            continue
        if changed := differences(entry, found):
            due.append(as_people_left_it(entry, found))
            said.append(f"deployed {full_name(entry)} again: {', '.join(changed)}")
    if due:
        _deploy(due, settings)
    yield from said


def differences(entry: Mapping[str, Any], found: DeploymentResponse) -> list[str]:
    """In what a deployment on the server is not what prefect.yaml says."""
    limit = found.global_concurrency_limit
    pairs = {
        "definition": (entry["version"], found.version),
        "work pool": (entry["work_pool"]["name"], found.work_pool_name),
        "entrypoint": (entry["entrypoint"], found.entrypoint),
        "parameters": (entry.get("parameters") or {}, found.parameters),
        "tags": (entry["tags"], sorted(found.tags)),
        "limit": (
            (entry.get("concurrency_limit") or {}).get("limit"),
            limit.limit if limit else None,
        ),
        "schedules": (
            sorted(_schedule(given) for given in entry.get("schedules") or []),
            sorted(_found_schedule(given.schedule) for given in found.schedules),
        ),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def as_people_left_it(entry: Mapping[str, Any], found: DeploymentResponse) -> dict[str, Any]:
    """The entry, paused and with schedules on or off as they are on the server.

    Deploying makes schedules anew, and a release must not stop being looked at because a flow's
    file has changed.
    """
    active = {_found_schedule(given.schedule): given.active for given in found.schedules}
    schedules = [
        {**given, "active": active.get(_schedule(given), given.get("active", True))}
        for given in entry.get("schedules") or []
    ]
    kept = {"schedules": schedules} if schedules else {}
    return {**entry, **kept, "paused": found.paused}


def _schedule(given: Mapping[str, Any]) -> str:
    return str(given["cron"]) if "cron" in given else f"every {float(given['interval']):g} s"


def _found_schedule(schedule: Any) -> str:
    interval = getattr(schedule, "interval", None)
    if isinstance(interval, timedelta):
        return f"every {interval.total_seconds():g} s"
    return str(getattr(schedule, "cron", schedule))


def _deploy(entries: list[dict[str, Any]], settings: Settings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prefect.yaml"
        document = {"name": TAG, "deployments": entries}
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        done = subprocess.run(
            [*PREFECT, "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
            cwd=settings.root,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"`prefect deploy` failed:\n{done.stdout}{done.stderr}")
