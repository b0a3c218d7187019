"""Versioned inputs as an MLflow run: what an evaluation under the same manifest was made from.

MLflow is a view. An evaluation of these inputs is found through the manifest's SHA-256, which both
runs carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.tracking import RunContent, Store, record
from pipelines.tracking.content import KIND, flat
from pipelines.tracking.datasets import data_sets

MANIFEST = "reports/manifest.json"
ARTIFACTS = (MANIFEST, "reports/state/environment.json", "data/validation.json", "dvc.lock")


def inputs_run(
    workspace: Path,
    params: Mapping[str, Any],
    manifest: Mapping[str, Any],
    *,
    remote: str | None,
    commit: str | None,
) -> RunContent:
    """Returns the run of one set of inputs; the same inputs give the same run.

    Args:
        workspace: where they lie.
        params: the parameters they were made with.
        manifest: the document reports/manifest.json.
        remote: address of the DVC remote that holds them; null when they were not sent anywhere.
        commit: the Git commit of the code; null outside of a checkout.
    """
    digest = manifest["manifest_sha256"]
    tags = {f"sha256.{name}": value for name, value in manifest["entries"].items()}
    tags |= {KIND: "inputs", "profile": str(params["profile"]), "dvc.remote": remote or "none"}
    if commit:
        tags["mlflow.source.git.commit"] = commit
    settings = {"target": params["target"], "draft": params["draft"], "prompts": params["prompts"]}
    return RunContent(
        key="inputs",
        name=f"inputs {digest[:8]}",
        identity={"inputs.manifest_sha256": digest, "inputs.profile": str(params["profile"])},
        tags=tags,
        params=dict(flat(settings)),
        artifacts=tuple(path for name in ARTIFACTS if (path := workspace / name).exists()),
    )


def record_inputs(
    store: Store, content: RunContent, entries: Mapping[str, str], remote: str | None
) -> str:
    """Writes the run with its data sets and returns its id.

    Args:
        store: where to.
        content: from `inputs_run`.
        entries: digests by name, from the manifest.
        remote: address the data sets can be fetched from; null for this machine only.

    Raises:
        mlflow.exceptions.MlflowException: the store cannot be written.
    """
    whole = replace(content, datasets=data_sets(entries, remote))
    return record(store, whole)[content.key]
