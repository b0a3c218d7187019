"""Measures a part of the prompts, so that several machines share an evaluation.

    python -m pipelines.shards --index 0 --of 4

A prompt is never divided: all arms decode it one after the other on one machine, so ratios between
arms mean what they mean in one piece. Seeds and the order of arms hang on the prompt and not on its
neighbours (specdecode/workload/schedule.py), so the tokens are the same however prompts are dealt.
Timings are not, unless the machines are alike; a shard on another kind of machine is refused.

Rows of all shards go into the spool of the stage `measure`, which then finds nothing left to do and
hands them on: what DVC, the audit and the gate see is what they see without shards.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import environment, settings
from pipelines.console import say
from pipelines.stages import measure
from pipelines.stages.command import parameters, read_json, run
from specdecode.errors import ConfigError, EvidenceError
from specdecode.measurement.records import Record
from specdecode.measurement.spool import RowSpool
from specdecode.workload.sampling import SamplingSetting, settings_from
from specdecode.workload.schedule import plan_generations, select_prompts

ENVIRONMENT = "reports/state/environment.json"
PROMPTS = "data/prompts.parquet"
MANIFEST = "reports/manifest.json"


def spool_of(workspace: Path, index: int, count: int) -> Path:
    """Where a shard keeps its rows until they are gathered; a second start goes on from there."""
    return workspace / f".specdecode/shards/{index}-of-{count}"


def dealt(prompts: pa.Table, index: int, count: int) -> pa.Table:
    """Every `count`-th prompt from `index` on: each shard sees every kind.

    Raises:
        ConfigError: there is no such shard, or it would be empty.
    """
    if not 0 <= index < count <= prompts.num_rows:
        raise ConfigError(
            f"shard {index} of {count}: {prompts.num_rows} prompts can be dealt to 1 up to "
            f"{prompts.num_rows} shards, counted from 0"
        )
    return prompts.take(pa.array(range(index, prompts.num_rows, count), pa.int64()))


def expected(workspace: Path) -> dict[tuple[str, str, str], int]:
    """Place of each row in the whole schedule, by its key (prompt_id, arm, sampling name)."""
    params = parameters(workspace / "params.yaml")
    prompts = _prompts(workspace, params)
    plan = plan_generations(
        [str(name) for name in prompts.column("prompt_id").to_pylist()],
        _sampling(params),
        params["decoding"]["arms"],
        master_seed=params["seeds"]["sampling"],
    )
    return {generation.key: generation.order_index for generation in plan}


def keys_of(workspace: Path, index: int, count: int) -> set[tuple[str, str, str]]:
    """Keys of a shard's rows."""
    params = parameters(workspace / "params.yaml")
    own = set(dealt(_prompts(workspace, params), index, count).column("prompt_id").to_pylist())
    return {key for key in expected(workspace) if key[0] in own}


def gather(workspace: Path, lines: Iterable[str]) -> int:
    """Puts rows of shards into the spool of `measure` and returns how many of all are there now.

    A row that is there already stays, and the one offered is left out: a prompt that was measured
    twice, since its shard was started again, counts as it was first seen.

    Args:
        workspace: the repository or a scratch copy of it.
        lines: rows, as their shard's spool has them.

    Raises:
        EvidenceError: a row is of another manifest, or of no place in the schedule.
    """
    places = expected(workspace)
    manifest = read_json(workspace / MANIFEST)["manifest_sha256"]
    with RowSpool(workspace / measure.SPOOL, manifest) as spool:
        for line in lines:
            record = Record.from_json_line(line)
            if record.key not in places:
                raise EvidenceError(f"{record.request_id}: no row of this schedule")
            if record.key not in spool.done:
                place = {"order_index": places[record.key]}
                spool.append(record.model_copy(update=place))
        return len(spool.done)


def gathered(workspace: Path) -> frozenset[tuple[str, str, str]]:
    """Keys of the rows that are in the spool of `measure`."""
    manifest = read_json(workspace / MANIFEST)["manifest_sha256"]
    with RowSpool(workspace / measure.SPOOL, manifest) as spool:
        return spool.done


def thread_variables(recorded: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """The environment `own` with the thread settings that the manifest's environment had.

    Ray gives its workers settings of its own, and timings hang on them.
    """
    threads = recorded["threads"]
    found = {name: value for name, value in own.items() if name not in environment.THREAD_VARIABLES}
    for name in environment.THREAD_VARIABLES:
        if threads.get(name.lower()) is not None:
            found[name] = str(threads[name.lower()])
    return found


def refuse_another_machine(params: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Raises unless this machine is of the kind the manifest is about.

    Raises:
        ConfigError: names what differs.
    """
    here = environment.describe(params["decoding"]["threads"])
    if differing := sorted(name for name in recorded if recorded[name] != here.get(name)):
        told = "; ".join(f"{n}: {recorded[n]} there, {here.get(n)} here" for n in differing)
        raise ConfigError(
            f"this machine is not of the kind the manifest was made on ({told}). Timings of "
            "unlike machines must not meet in one evaluation: take alike ones, or make the inputs "
            "on one of these"
        )


def measure_shard(index: int, count: int) -> None:
    """Measures one shard of the workspace we are in; its rows stay in its own spool."""
    settings.work_offline()
    logging.basicConfig(level="INFO", format="%(message)s")
    from specdecode.workload import offline

    params = parameters()
    refuse_another_machine(params, read_json(ENVIRONMENT))
    here = Path()
    prompts = dealt(_prompts(here, params), index, count)
    with RowSpool(spool_of(here, index, count), read_json(MANIFEST)["manifest_sha256"]) as spool:
        done = offline.measure(
            prompts,
            measure.engines(params, read_json("models/draft/manifest.json")),
            _sampling(params),
            spool,
            master_seed=params["seeds"]["sampling"],
            manifest_sha256=spool.manifest_sha256,
            profile=params["profile"],
        )
    say(f"shard {index} of {count}: {done.total} rows, {done.failed} of them failed")


def shard_lines(workspace: Path, index: int, count: int) -> list[str]:
    """Rows of a measured shard, as text that travels between machines."""
    with RowSpool(
        spool_of(workspace, index, count), read_json(workspace / MANIFEST)["manifest_sha256"]
    ) as spool:
        return [record.to_json_line() for record in spool.records()]


def forget(workspace: Path, index: int, count: int) -> None:
    """Takes away a shard's own spool, once its rows are gathered: the next evaluation measures."""
    shutil.rmtree(spool_of(workspace, index, count), ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.shards", description=__doc__)
    parser.add_argument("--index", type=int, required=True, help="which shard, from 0")
    parser.add_argument("--of", type=int, required=True, help="how many there are")
    arguments = parser.parse_args(argv)
    run(lambda: measure_shard(arguments.index, arguments.of))


def _prompts(workspace: Path, params: Mapping[str, Any]) -> pa.Table:
    chosen = params["prompts"]
    table = pq.read_table(workspace / PROMPTS)
    return select_prompts(table, chosen["split"], chosen["limit"])


def _sampling(params: Mapping[str, Any]) -> list[SamplingSetting]:
    decoding = params["decoding"]
    limit = {"max_tokens": decoding["max_tokens"]}
    return list(settings_from([{**limit, **option} for option in decoding["sampling"]]))


if __name__ == "__main__":
    main(sys.argv[1:])
