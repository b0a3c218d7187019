"""Flow `evaluate`: one evaluation, stage by stage, with its progress and logs in Prefect.

    prefect server start                                 # once, or any Prefect server
    python -m pipelines.deployments apply                # pools, limits, deployments, automations
    prefect worker start --pool cpu

It fails closed: a stage that fails ends the flow, and a verdict counts only when it was reached
under the inputs of this very run. A verdict of NO_GO is a result, so the flow completes with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from pipelines import repro
from pipelines.flows.events import emit_verdict
from pipelines.flows.measuring import measuring_slot
from pipelines.stages.command import read_json
from pipelines.workspace import refresh, workspace_of


@task(task_run_name="{stage}", cache_policy=NO_CACHE, persist_result=False, retries=0)
def reproduce(stage: str, workspace: Path, root: Path, *, force: bool = False) -> None:
    """Brings one stage up to date, or runs it again although it is.

    Raises:
        RuntimeError: the stage failed; its messages are in the log of this task.
    """
    logger = get_run_logger()
    status = repro.run(
        workspace,
        tracked_in=root,
        stages=[stage],
        options=["--single-item", *(["--force"] if force else [])],
        on_line=lambda line: logger.info("%s", line),
    )
    if status != 0:
        raise RuntimeError(f"stage '{stage}' failed with status {status}: see the log above")


@flow(name="evaluate", persist_result=False, retries=0)
def evaluate(profile: str = "full", remeasure: bool = False) -> dict[str, Any]:
    """Runs all stages in order and returns the verdict.

    Args:
        profile: a key of `profiles` in params.yaml.
        remeasure: take new measurements although no input changed; a schedule wants today's
            numbers, not yesterday's verdict again.

    Returns:
        The document reports/verdict.json.

    Raises:
        RuntimeError: a stage failed, or the verdict is not about the inputs of this run.
    """
    root = Path.cwd()
    workspace = workspace_of(root, profile)
    with repro.alone_in(workspace):
        refresh(root, profile)
        stages = repro.stages_in_order(workspace)
        for number, stage in enumerate(stages, start=1):
            get_run_logger().info("stage %d of %d: %s", number, len(stages), stage)
            if stage == "measure":
                with measuring_slot(workspace):
                    reproduce(stage, workspace, root, force=remeasure)
            else:
                reproduce(stage, workspace, root)
        return settle(workspace, profile)


def settle(workspace: Path, profile: str) -> dict[str, Any]:
    """Reads the verdict of a run that went through, shows it, tells of it and returns it.

    Raises:
        RuntimeError: it is not about the inputs of this run.
    """
    verdict = read_json(workspace / "reports/verdict.json")
    manifest = read_json(workspace / "reports/manifest.json")["manifest_sha256"]
    if verdict["manifest_sha256"] != manifest:
        raise RuntimeError(
            f"the verdict is about manifest {verdict['manifest_sha256']}, this run's is {manifest}"
        )
    create_markdown_artifact(
        markdown(verdict), key=f"evaluation-{profile}".lower(), description="Verdict"
    )
    emit_verdict(
        verdict,
        stage="offline",
        step=None,
        owner=verdict["owner"],
        recovery="none" if verdict["status"] == "GO" else "hold",
    )
    return verdict


def markdown(verdict: dict[str, Any]) -> str:
    """Returns the verdict as a short page: status, reasons, rules that did not pass."""
    lines = [f"# {verdict['status']}", "", verdict["claim"], "", "## Why", ""]
    lines += [f"- {reason}" for reason in verdict["reasons"]]
    open_rules = [rule for rule in verdict["rules"] if rule["outcome"] != "pass"]
    if open_rules:
        lines += ["", "## Rules that did not pass", "", "| rule | arm | stratum | outcome | why |"]
        lines += ["|---|---|---|---|---|"]
    for rule in open_rules:
        cells = (rule["name"], rule["arm"], rule["stratum"], rule["outcome"], rule["reason"])
        lines.append(
            "| " + " | ".join(str(cell or "").replace("|", "\\|") for cell in cells) + " |"
        )
    return "\n".join([*lines, "", f"Manifest `{verdict['manifest_sha256']}`"])


if __name__ == "__main__":
    evaluate()
