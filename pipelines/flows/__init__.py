"""Prefect flows: operation of the pipeline. They call DVC; no stage ever calls Prefect."""
