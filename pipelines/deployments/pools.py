"""Work pools `cpu` and `gpu`, and the slots that measurements take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from pipelines.deployments.settings import Settings
from pipelines.hardware import Hardware, slot
from specdecode.errors import ConfigError

JOB_TEMPLATE = Path(__file__).with_name("kubernetes") / "base_job_template.json"
DESCRIPTIONS: dict[Hardware, str] = {
    "cpu": "Flows that steer and measure without a GPU.",
    "gpu": "Measurements on a GPU, one run per GPU.",
}


def apply_pools(client: SyncPrefectClient, settings: Settings) -> Iterator[str]:
    """Brings the pools to their state and yields what was changed.

    A pool that a person paused stays paused.

    Raises:
        ConfigError: a pool of that name has another type, which Prefect cannot change.
    """
    for name, description in DESCRIPTIONS.items():
        limit = _limit(name, settings)
        template = job_template(name, settings)
        try:
            found = client.read_work_pool(name)
        except ObjectNotFound:
            client.create_work_pool(
                WorkPoolCreate(
                    name=name,
                    type=settings.infrastructure,
                    description=description,
                    concurrency_limit=limit,
                    base_job_template=template,
                )
            )
            yield f"created work pool {name} ({settings.infrastructure}, limit {limit or 'none'})"
            continue
        if found.type != settings.infrastructure:
            raise ConfigError(
                f"work pool {name} is of type {found.type}, not {settings.infrastructure}: a "
                f"pool's type cannot be changed. Delete it (`prefect work-pool delete {name}`) "
                f"and apply again, or apply with --infrastructure {found.type}"
            )
        wanted = {
            "description": description,
            "concurrency_limit": limit,
            "base_job_template": template,
        }
        changed = [field for field, value in wanted.items() if getattr(found, field) != value]
        if changed:
            client.update_work_pool(name, WorkPoolUpdate(**wanted))
            yield f"updated work pool {name}: {', '.join(changed)}"


def apply_limits(client: SyncPrefectClient, settings: Settings) -> Iterator[str]:
    """Brings the slots of measurements to their number and yields what was changed."""
    for hardware, limit in (("cpu", 1), ("gpu", max(1, settings.gpus))):
        name = slot(hardware)  # type: ignore[arg-type]
        try:
            found: int | None = client.read_global_concurrency_limit_by_name(name).limit
        except ObjectNotFound:
            found = None
        if found != limit:
            client.upsert_global_concurrency_limit_by_name(name, limit)
            yield f"limit {name}: {'none' if found is None else found} -> {limit}"


def job_template(name: Hardware, settings: Settings) -> dict[str, Any]:
    """The base job template of a pool; on Kubernetes, the `gpu` pool asks for one GPU a run."""
    if settings.infrastructure == "process":
        return ProcessWorker.get_default_base_job_template()
    template: dict[str, Any] = json.loads(JOB_TEMPLATE.read_text(encoding="utf-8"))
    if name == "gpu":
        template["variables"]["properties"]["gpu_limit"]["default"] = 1
    return template


def _limit(name: Hardware, settings: Settings) -> int | None:
    """Runs at a time. None for cpu: a roll-back must never queue behind what it is to end."""
    return max(1, settings.gpus) if name == "gpu" else None
