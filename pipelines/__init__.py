"""The rim: the only place that imports Prefect, MLflow, DVC or Great Expectations."""

from pipelines import settings as settings  # before any of them is imported: turns telemetry off
