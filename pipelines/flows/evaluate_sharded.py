"""Flow `evaluate-sharded`: the evaluation, with its measurement dealt to several machines.

Everything but `measure` is as in `evaluate`. Shards run on a Ray cluster, one a node or GPU, or one
after the other on this machine when no cluster is named. The repository has to be at the same path
on every node (a shared volume); rows come back by value, so nothing but this flow writes to it
outside of a shard's own folder.

Ray and prefect-ray are no part of the locked environment; pipelines/deployments/ray/ names them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from pipelines import repro, shards
from pipelines.flows.evaluate import reproduce, settle
from pipelines.flows.measuring import measuring_slot
from pipelines.flows.version_inputs import input_stages
from pipelines.stages.command import read_json
from pipelines.workspace import refresh, workspace_of
from specdecode.errors import MissingPrerequisiteError


@task(
    task_run_name="shard {index} of {count}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=1,
)
def shard(workspace: Path, index: int, count: int) -> list[str]:
    """Measures one shard in a process of its own and returns its rows as text.

    A second try goes on from the rows of the first: they are on disk.

    Raises:
        RuntimeError: it failed; its messages are in the log of this task.
    """
    logger = get_run_logger()
    command = [sys.executable, "-m", "pipelines.shards", "--index", str(index), "--of", str(count)]
    recorded = read_json(workspace / shards.ENVIRONMENT)
    status = repro.call(
        command,
        workspace,
        lambda line: logger.info("%s", line),
        environment=shards.thread_variables(recorded, os.environ),
    )
    if status != 0:
        raise RuntimeError(f"shard {index} of {count} failed with status {status}: see the log")
    return shards.shard_lines(workspace, index, count)


@flow(name="evaluate-sharded", persist_result=False, retries=0)
def evaluate_sharded(
    *,
    profile: str = "full",
    count: int = 2,
    ray_address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    remeasure: bool = False,
) -> dict[str, Any]:
    """Runs all stages in order, measures in shards, and returns the verdict.

    Args:
        profile: a key of `profiles` in params.yaml.
        count: number of shards, at most one per prompt.
        ray_address: a Ray cluster, such as ray://head:10001, or "local" for one on this machine;
            null measures the shards here, one after the other.
        cpus: cores Ray sets aside for a shard; a whole node's, so that none has a neighbour.
        gpus: GPUs for a shard.
        remeasure: take new measurements although no input changed.

    Returns:
        The document reports/verdict.json.

    Raises:
        MissingPrerequisiteError: a cluster is named and Ray is not installed.
        RuntimeError: a stage or shard failed; rows of the other shards are kept.
    """
    runner = runner_for(ray_address)
    asked = None if ray_address is None else {"num_cpus": cpus, "num_gpus": gpus}
    root = Path.cwd()
    workspace = workspace_of(root, profile)
    with repro.alone_in(workspace):
        refresh(root, profile)
        before = input_stages(workspace)
        for stage in before:
            reproduce(stage, workspace, root)
        due = remeasure or repro.is_due(workspace, "measure")
        if due:
            with measuring_slot(workspace):
                dealt_out.with_options(task_runner=runner)(workspace, count, asked)
        for stage in repro.stages_in_order(workspace):
            if stage not in before:
                reproduce(stage, workspace, root, force=due and stage == "measure")
        return settle(workspace, profile)


@flow(name="measure-in-shards", persist_result=False, retries=0)
def dealt_out(workspace: Path, count: int, asked: dict[str, float] | None = None) -> None:
    """Measures what is missing and gathers each shard's rows.

    Args:
        workspace: the repository or a scratch copy of it.
        count: number of shards.
        asked: what Ray sets aside for each; null without Ray.

    Raises:
        RuntimeError: a shard failed, after all others were gathered; names it.
    """
    logger = get_run_logger()
    done = shards.gathered(workspace)
    with on_ray(asked):
        started = {
            index: shard.submit(workspace, index, count)
            for index in range(count)
            if not shards.keys_of(workspace, index, count) <= done
        }
    logger.info("%d of %d shards have rows to measure", len(started), count)
    failed = {}
    for index, future in started.items():
        try:
            there = shards.gather(workspace, future.result())
        except Exception as error:  # noqa: BLE001 - rows of the other shards must not be lost
            failed[index] = error
        else:
            shards.forget(workspace, index, count)
            logger.info("shard %d of %d gathered: %d rows are there", index, count, there)
    if failed:
        told = "; ".join(f"shard {index}: {why}" for index, why in failed.items())
        raise RuntimeError(f"{told}. Rows of the others are kept; start the flow again to go on")


def runner_for(address: str | None) -> TaskRunner[Any]:
    """What runs the shards.

    Raises:
        MissingPrerequisiteError: a cluster is named and Ray is not installed.
    """
    if address is None:
        return ThreadPoolTaskRunner(max_workers=1)
    try:
        from prefect_ray import RayTaskRunner
    except ImportError as error:
        raise MissingPrerequisiteError(
            "shards on Ray need prefect-ray: `pip install -r "
            "pipelines/deployments/ray/requirements.txt`, here and on every node"
        ) from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no dependency phones home
    runner: TaskRunner[Any] = (
        RayTaskRunner(init_kwargs={"include_dashboard": False})
        if address == "local"
        else RayTaskRunner(address=address)
    )
    return runner


@contextlib.contextmanager
def on_ray(asked: dict[str, float] | None) -> Iterator[None]:
    """Asks Ray for these resources a shard; it repeats nothing by itself, which would go unseen."""
    if asked is None:
        yield
        return
    from prefect_ray.context import remote_options

    with remote_options(**asked, max_retries=0):
        yield


if __name__ == "__main__":
    evaluate_sharded()
