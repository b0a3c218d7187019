"""Evaluations as MLflow runs: one parent per evaluation, one child per arm.

Every call names its store and its run. MLflow would otherwise take an old `mlruns` folder lying
about for its store, keep the "active run" in whichever thread started it, and let MLFLOW_RUN_ID
override a parent.

An evaluation is known by its identity, a set of tags that holds the digests of its inputs and its
rows. Tracking the same one again finds its runs by that and refreshes them; it never makes a
second set.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME
from mlflow.utils.time import get_current_time_millis

EXPERIMENT = "specdecode"
URI = "MLFLOW_TRACKING_URI"
ARTIFACTS = "SPECDECODE_MLFLOW_ARTIFACTS"
LONGEST_TAG, LONGEST_PARAM = 8000, 6000


@dataclass(frozen=True)
class RunContent:
    """What one run says.

    Attributes:
        name: shown in the list of runs.
        identity: tags by which the run is found again.
        tags: further words and digests.
        params: settings.
        metrics: numbers; null and not finite ones are left out, never sent as zero.
        artifacts: files and folders to keep beside the run.
    """

    name: str
    identity: Mapping[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    artifacts: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Store:
    """Where runs go.

    Attributes:
        uri: a tracking address MLflow understands.
        artifacts: folder for files; null when a server decides.
        lock: file that keeps a second writer out, null for a server, which sees to it itself. An
            empty database is set up by its first user, and two at once fail with duplicate columns.
    """

    uri: str
    artifacts: str | None
    lock: Path | None


def store_of(root: Path, environ: Mapping[str, str] = os.environ) -> Store:
    """Returns the store of the project at `root`: mlflow.db and mlartifacts/ unless overridden."""
    root = root.resolve()
    uri = environ.get(URI) or f"sqlite:///{root}/mlflow.db"
    if not uri.startswith("sqlite:"):
        return Store(uri, environ.get(ARTIFACTS), None)
    database = Path(uri.removeprefix("sqlite:///"))
    folder = environ.get(ARTIFACTS) or str(database.parent / "mlartifacts")
    return Store(uri, Path(folder).resolve().as_uri(), database.with_name(database.name + ".lock"))


def record(store: Store, parent: RunContent, children: Sequence[RunContent]) -> dict[str, str]:
    """Writes an evaluation and returns the run ids by name: the parent's under "parent".

    Raises:
        mlflow.exceptions.MlflowException: the store cannot be written.
    """
    with _alone(store.lock):
        client = MlflowClient(tracking_uri=store.uri)
        experiment = _experiment(client, store)
        parent_id = _write(client, experiment, parent)
        ids = {"parent": parent_id}
        for child in children:
            tags = {**child.tags, MLFLOW_PARENT_RUN_ID: parent_id}
            own = RunContent(**{**vars(child), "tags": tags})
            ids[child.name] = _write(client, experiment, own)
    return ids


def _experiment(client: MlflowClient, store: Store) -> str:
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is not None:
        return str(found.experiment_id)
    return str(client.create_experiment(EXPERIMENT, artifact_location=store.artifacts))


def _write(client: MlflowClient, experiment: str, content: RunContent) -> str:
    run = _find(client, experiment, content.identity) or client.create_run(
        experiment, tags=dict(content.identity), run_name=content.name
    )
    run_id = str(run.info.run_id)
    now = get_current_time_millis()
    tags = {**content.identity, **content.tags, MLFLOW_RUN_NAME: content.name}
    known = run.data.metrics
    metrics = [
        Metric(name, value, now, 0)
        for name, value in content.metrics.items()
        if value is not None and math.isfinite(value) and known.get(name) != value
    ]
    settled = run.data.params  # MLflow refuses to change a parameter, and these cannot have changed
    params = [
        Param(name, value[:LONGEST_PARAM])
        for name, value in content.params.items()
        if name not in settled
    ]
    client.log_batch(
        run_id,
        metrics=metrics,
        params=params,
        tags=[RunTag(name, value[:LONGEST_TAG]) for name, value in tags.items()],
        synchronous=True,
    )
    for path in content.artifacts:
        if path.is_dir():
            client.log_artifacts(run_id, str(path), artifact_path=path.name)
        else:
            client.log_artifact(run_id, str(path))
    client.set_terminated(run_id, status="FINISHED")
    return run_id


def _find(client: MlflowClient, experiment: str, identity: Mapping[str, str]) -> Run | None:
    wanted = " and ".join(f"tags.`{name}` = '{value}'" for name, value in identity.items())
    found = client.search_runs([experiment], filter_string=wanted, max_results=1)
    return found[0] if found else None


@contextlib.contextmanager
def _alone(lock: Path | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
