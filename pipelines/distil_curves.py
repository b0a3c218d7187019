"""The curves of a distillation as an MLflow run, while it goes on and after it was killed.

A view of files that are there anyway: what is in the run already is not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from mlflow.utils.time import get_current_time_millis

from pipelines.tracking import Store

EXPERIMENT = "specdecode-distil"
IDENTITY = "distil.training_folder"
_SENT = "distil.last_step"
_BATCH = 1000  # most metrics MLflow takes at a time


class CurveRun:
    """The run of one training.

    Args:
        store: where runs go.
        training: the folder of part 3; the run is found again by it and by what it was begun with.
        began_with: settings, kept as parameters.
    """

    def __init__(self, store: Store, training: Path, began_with: Mapping[str, Any]) -> None:
        self._client = MlflowClient(tracking_uri=store.uri)
        self._training = training
        texts = str(began_with.get("texts_sha256", ""))
        identity = f"{training.resolve()} {texts}"
        found = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = (
            found.experiment_id
            if found is not None
            else self._client.create_experiment(EXPERIMENT, artifact_location=store.artifacts)
        )
        runs = self._client.search_runs(
            [experiment], filter_string=f"tags.`{IDENTITY}` = '{identity}'", max_results=1
        )
        if runs:
            self.run_id = str(runs[0].info.run_id)
            self._sent = int(runs[0].data.tags.get(_SENT, 0))
            return
        tags = {IDENTITY: identity, MLFLOW_RUN_NAME: training.parent.name}
        self.run_id = str(self._client.create_run(experiment, tags=tags).info.run_id)
        self._sent = 0
        params = [Param(name, str(value)) for name, value in sorted(began_with.items())]
        self._client.log_batch(self.run_id, params=params, synchronous=True)

    def send(self) -> int:
        """Send the points of the curve that the run lacks; returns how many."""
        path = self._training / "curve.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        points = [point for line in lines if (point := _point(line))["step"] > self._sent]
        now = get_current_time_millis()
        metrics = [
            Metric(name, float(value), now, int(point["step"]))
            for point in points
            for name, value in point.items()
            if name != "step"
        ]
        for first in range(0, len(metrics), _BATCH):
            self._client.log_batch(self.run_id, metrics=metrics[first : first + _BATCH])
        if points:
            self._sent = int(points[-1]["step"])
            self._client.set_tag(self.run_id, _SENT, str(self._sent))
        return len(points)

    def finish(self, report: Mapping[str, Any], file: Path) -> None:
        """Add the evaluation, keep the report beside the run, and close it."""
        self.send()
        now = get_current_time_millis()
        metrics = [
            Metric(f"{draft}.expected_acceptance.t{temperature}", value, now, 0)
            for draft, found in report["evaluation"]["drafts"].items()
            for temperature, numbers in found.items()
            if (value := numbers["expected_acceptance"]) is not None
        ]
        self._client.log_batch(self.run_id, metrics=metrics, synchronous=True)
        self._client.log_artifact(self.run_id, str(file))
        self._client.set_terminated(self.run_id, status="FINISHED")


def _point(line: str) -> dict[str, float]:
    try:
        point: dict[str, float] = json.loads(line)
    except ValueError:
        return {"step": 0.0}  # the line that is being written just now
    return point
