"""What an operator decides about a server, and what follows from the repository."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.hardware import Hardware, gpus_here, hardware_class
from pipelines.parameters import load_parameters
from specdecode.errors import MissingPrerequisiteError
from specdecode.governance.plan import load_plan

NOTIFY_URL = "SPECDECODE_NOTIFY_URL"
API_URL = "PREFECT_API_URL"
TAG = "specdecode"
"""On every deployment; automations look at runs that carry it, and at no others."""

Infrastructure = Literal["process", "kubernetes"]


@dataclass(frozen=True)
class Settings:
    """How a server is set up.

    Attributes:
        root: the repository; what is deployed is read from its prefect.yaml.
        infrastructure: what workers start: a process each, or a Kubernetes job.
        working_directory: the repository as the flows see it, on a worker or in a container.
        gpus: how many runs may hold a GPU at a time, over all machines.
        hardware: class of machine that measurements run on.
        owner: who is told: of the default plan.
        notify_url: webhook that is called; null when nobody is told.
    """

    root: Path
    infrastructure: Infrastructure
    working_directory: Path
    gpus: int
    hardware: Hardware
    owner: str
    notify_url: str | None


def settings_for(
    root: Path,
    *,
    infrastructure: Infrastructure = "process",
    working_directory: Path | None = None,
    gpus: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings from the command line, the environment and the repository.

    Args:
        root: the repository.
        infrastructure: what workers start.
        working_directory: null: `root` itself.
        gpus: null: those of this machine.
        environ: where SPECDECODE_NOTIFY_URL is looked up.

    Raises:
        MissingPrerequisiteError: no server is named, or `root` has no prefect.yaml.
        ConfigError: params.yaml or the plan cannot be read.
    """
    if not environ.get(API_URL):
        raise MissingPrerequisiteError(
            f"{API_URL} is not set, so there is no server to set up: start one with "
            f"`prefect server start`, then `export {API_URL}=http://127.0.0.1:4200/api`"
        )
    if not (root / "prefect.yaml").is_file():
        raise MissingPrerequisiteError(f"{root} has no prefect.yaml; run this in the repository")
    count = gpus_here() if gpus is None else gpus
    return Settings(
        root=root,
        infrastructure=infrastructure,
        working_directory=working_directory or root,
        gpus=count,
        hardware=hardware_class(load_parameters(root / "params.yaml"), count),
        owner=load_plan(root / "plans/default.yaml").owner,
        notify_url=environ.get(NOTIFY_URL) or None,
    )
