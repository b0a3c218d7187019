"""Which plans have verdicts in a store."""

from __future__ import annotations

from mlflow import MlflowClient

from pipelines.tracking.content import KIND


def plans_in(uri: str) -> list[tuple[str, str]]:
    """Returns (plan, experiment id) of every plan with a release, the one judged last first.

    Args:
        uri: of the store.
    """
    client = MlflowClient(tracking_uri=uri)
    found: list[tuple[int, str, str]] = []
    for experiment in client.search_experiments():
        newest = client.search_runs(
            [experiment.experiment_id],
            filter_string=f"tags.`{KIND}` = 'release'",
            order_by=["attributes.end_time DESC"],
            max_results=1,
        )
        if newest:
            ended = newest[0].info.end_time or 0
            found.append((ended, str(experiment.name), str(experiment.experiment_id)))
    return [(name, experiment) for _, name, experiment in sorted(found, reverse=True)]
