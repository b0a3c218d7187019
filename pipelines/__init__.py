"""The rim: the only place that imports Prefect, MLflow, DVC or Great Expectations."""
