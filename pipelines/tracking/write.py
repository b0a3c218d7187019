"""Writes runs, nested as their contents are, and finds them again instead of doubling them.

Every call names its run. MLflow would otherwise keep the "active run" in whichever thread started
it, and let MLFLOW_RUN_ID override a parent.

A run is known by its identity, a set of tags that holds the digests of what it is about. Writing
the same one again finds it by that and refreshes it; it never makes a second one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mlflow import MlflowClient
from mlflow.entities import LifecycleStage, Metric, Param, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME
from mlflow.utils.time import get_current_time_millis

from pipelines.tracking.content import RunContent
from pipelines.tracking.store import Store, alone
from pipelines.tracking.view import experiment_tags
from specdecode.errors import ConfigError

INPUTS = "specdecode"
"""Experiment of runs that belong to no plan."""
LONGEST_TAG, LONGEST_PARAM, MOST_METRICS, MOST_NAMES = 8000, 6000, 1000, 100
"""What MLflow takes: characters of a tag and of a parameter, numbers and names in one call."""


def record(store: Store, content: RunContent, *, experiment: str = INPUTS) -> dict[str, str]:
    """Writes a run with all that is nested in it.

    Args:
        store: where to.
        content: the outermost run.
        experiment: name of the experiment; it is made where there is none.

    Returns:
        The run ids, by the keys that lead to a run: "release", "release/offline", and so on.

    Raises:
        ConfigError: the experiment was deleted.
        mlflow.exceptions.MlflowException: the store cannot be written.
    """
    with alone(store):
        client = MlflowClient(tracking_uri=store.uri)
        return dict(_nested(client, experiment_id(client, store, experiment), content))


def experiment_id(client: MlflowClient, store: Store, name: str) -> str:
    """Returns the experiment's id, with its prepared views in place.

    Raises:
        ConfigError: somebody deleted it; MLflow keeps the name, and would refuse every run.
    """
    found = client.get_experiment_by_name(name)
    if found is None:
        tags = experiment_tags(name)
        return str(client.create_experiment(name, artifact_location=store.artifacts, tags=tags))
    made = str(found.experiment_id)
    if found.lifecycle_stage == LifecycleStage.DELETED:
        raise ConfigError(
            f"the MLflow experiment {name!r} was deleted, and its name is still taken. Bring it "
            f"back with `mlflow experiments restore --experiment-id {made}`, or be rid of it with "
            f"`mlflow gc --experiment-ids {made}`; both take --backend-store-uri or the variable "
            f"MLFLOW_TRACKING_URI ({store.uri})"
        )
    for key, value in experiment_tags(name).items():
        if found.tags.get(key) != value:
            client.set_experiment_tag(made, key, value)
    return made


def _nested(
    client: MlflowClient, experiment: str, content: RunContent, parent: str | None = None
) -> Iterator[tuple[str, str]]:
    run_id = _write(client, experiment, content, parent)
    yield content.key, run_id
    for child in content.children:
        for key, nested in _nested(client, experiment, child, run_id):
            yield f"{content.key}/{key}", nested


def _write(
    client: MlflowClient, experiment: str, content: RunContent, parent: str | None = None
) -> str:
    run = _find(client, experiment, content.identity) or client.create_run(
        experiment, tags=dict(content.identity), run_name=content.name
    )
    run_id = str(run.info.run_id)
    nesting = {} if parent is None else {MLFLOW_PARENT_RUN_ID: parent}
    tags = {**content.identity, **content.tags, **nesting}
    tags |= {MLFLOW_RUN_NAME: content.name} if content.renames else {}
    settled = run.data.params  # MLflow refuses to change a parameter, and these cannot have changed
    params = {name: value for name, value in content.params.items() if name not in settled}
    for part in _parts(tags):
        client.log_batch(
            run_id, tags=[RunTag(name, value[:LONGEST_TAG]) for name, value in part.items()]
        )
    for part in _parts(params):
        client.log_batch(
            run_id, params=[Param(name, value[:LONGEST_PARAM]) for name, value in part.items()]
        )
    numbers = [*_single(run, content), *_growing(run, content)]
    for start in range(0, len(numbers), MOST_METRICS):
        client.log_batch(run_id, metrics=numbers[start : start + MOST_METRICS], synchronous=True)
    if content.datasets:
        client.log_inputs(run_id, list(content.datasets))
    for path in content.artifacts:
        if path.is_dir():
            client.log_artifacts(run_id, str(path), artifact_path=path.name)
        else:
            client.log_artifact(run_id, str(path))
    client.set_terminated(run_id, status="FINISHED")
    return run_id


def _single(run: Run, content: RunContent) -> list[Metric]:
    """The numbers that are not there yet; those without data are left out."""
    known, now = run.data.metrics, get_current_time_millis()
    return [
        Metric(name, value, now, 0)
        for name, value in content.metrics.items()
        if value is not None and math.isfinite(value) and known.get(name) != value
    ]


def _growing(run: Run, content: RunContent) -> Iterator[Metric]:
    """The steps that are not there yet: written twice, a point would be shown twice.

    MLflow tells the last step of each number with the run. Steps are written in their order, so all
    up to that one are there, and the history, which grows with every look, need not be read.
    """
    now = get_current_time_millis()
    last = {metric.key: int(metric.step) for metric in run.data.to_proto().metrics}
    points = [
        Metric(name, value, now, step)
        for name, steps in content.series.items()
        for step, value in sorted(steps)
        if math.isfinite(value)
    ] + [
        Metric(name, value, moment.at_ms, moment.step)
        for moment in sorted(content.moments, key=lambda moment: moment.step)
        for name, value in moment.values.items()
    ]
    yield from (point for point in points if point.key not in last or point.step > last[point.key])


def _parts(named: Mapping[str, str]) -> Iterator[dict[str, str]]:
    items = list(named.items())
    for start in range(0, len(items), MOST_NAMES):
        yield dict(items[start : start + MOST_NAMES])


def _find(client: MlflowClient, experiment: str, identity: Mapping[str, str]) -> Run | None:
    wanted = " and ".join(f"tags.`{name}` = '{value}'" for name, value in identity.items())
    found = client.search_runs([experiment], filter_string=wanted, max_results=1)
    return found[0] if found else None
