"""Flow `version-inputs`: everything an evaluation is made from, made ready, sent away and named.

Data, tokenizer, weights, configuration and chat template go under DVC; the manifest says with one
digest what they are; DVC sends them to the configured remote; MLflow gets the lineage. Nothing is
measured. Run twice, it makes, sends and writes nothing new.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from pipelines import remote, repro
from pipelines.flows.evaluate import reproduce
from pipelines.lineage import inputs_run, record_inputs
from pipelines.parameters import load_parameters
from pipelines.stages.command import read_json
from pipelines.tracking import store_of
from pipelines.tracking.content import git_commit
from pipelines.workspace import refresh, workspace_of
from specdecode.errors import MissingPrerequisiteError

LAST = "manifest"
"""The stage that all inputs lead to; every stage before it makes one."""


@task(
    task_run_name="push",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=10,
)
def send(workspace: Path, stages: list[str], address: str) -> None:
    """Sends what the stages made to the remote; what is there already is not sent again.

    Raises:
        RuntimeError: not all of it arrived; DVC's messages are in the log of this task.
    """
    logger = get_run_logger()
    status = remote.push(workspace, stages, lambda line: logger.info("%s", line))
    if status != 0:
        raise RuntimeError(
            f"the inputs did not all reach {address}: see the log above. They are versioned on "
            "this machine; start the flow again when the remote can be reached"
        )


@task(task_run_name="lineage", cache_policy=NO_CACHE, persist_result=False, retries=0)
def trace(workspace: Path, root: Path, manifest: dict[str, Any], address: str | None) -> str:
    """Writes the MLflow run of these inputs and returns its id."""
    content = inputs_run(
        workspace,
        load_parameters(workspace / "params.yaml"),
        manifest,
        remote=address,
        commit=git_commit(),
    )
    return record_inputs(store_of(root), content, manifest["entries"], address)


@flow(name="version-inputs", persist_result=False, retries=0)
def version_inputs(profile: str = "full", push: bool = True) -> dict[str, Any]:
    """Makes the inputs ready, sends them to the DVC remote and records their lineage.

    Args:
        profile: a key of `profiles` in params.yaml.
        push: send them to the remote; without it they stay on this machine.

    Returns:
        `manifest_sha256`, the remote's address (null when nothing was sent), the MLflow run.

    Raises:
        MissingPrerequisiteError: no remote is configured; told before anything is made.
        RuntimeError: a stage failed, or the remote took not all.
    """
    root = Path.cwd()
    workspace = workspace_of(root, profile)
    with repro.alone_in(workspace):
        refresh(root, profile)
        address = configured_remote(workspace) if push else None
        stages = input_stages(workspace)
        for number, stage in enumerate(stages, start=1):
            get_run_logger().info("stage %d of %d: %s", number, len(stages), stage)
            reproduce(stage, workspace, root)
        manifest = read_json(workspace / "reports/manifest.json")
        if address is not None:
            send(workspace, stages, address)
        run_id = trace(workspace, root, manifest, address)
    create_markdown_artifact(
        page(manifest, address, run_id),
        key=f"inputs-{profile}".lower(),
        description="Versioned inputs",
    )
    return {
        "manifest_sha256": manifest["manifest_sha256"],
        "remote": address,
        "mlflow_run": run_id,
    }


def input_stages(workspace: Path) -> list[str]:
    """The stages of dvc.yaml that make inputs, in order: all up to the manifest."""
    stages = repro.stages_in_order(workspace)
    return stages[: stages.index(LAST) + 1]


def configured_remote(workspace: Path) -> str:
    """The address the inputs go to: SPECDECODE_DVC_REMOTE, or the project's own default.

    Raises:
        MissingPrerequisiteError: there is none.
    """
    remote.point_at(os.environ.get(remote.VARIABLE), workspace)
    address = remote.address(workspace)
    if address is None:
        raise MissingPrerequisiteError(
            f"no DVC remote is configured, so the inputs would exist on this machine only. Set "
            f"{remote.VARIABLE} to an address DVC understands (s3://bucket/path, ssh://host/path, "
            "a folder) where the flow runs, or `dvc remote add --default NAME URL` in the "
            "repository; or start the flow with push=false"
        )
    return address


def page(manifest: dict[str, Any], address: str | None, run_id: str) -> str:
    """The digests as a page."""
    lines = [
        f"# {manifest['manifest_sha256']}",
        "",
        f"Sent to {address}." if address else "Not sent anywhere: on this machine only.",
        f"MLflow run `{run_id}`.",
        "",
        "| input | SHA-256 |",
        "|---|---|",
    ]
    return "\n".join(lines + [f"| {name} | `{d}` |" for name, d in manifest["entries"].items()])


if __name__ == "__main__":
    version_inputs()
