"""Stage `measure`: every arm on every prompt, interleaved, one row per request and arm.

Rows go to .specdecode/spool first, outside of what DVC may delete, each safe on disk before the
next is made. A run that was cut off goes on from there; the parquet file appears only when all
rows are there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from pipelines import settings
from pipelines.console import say
from pipelines.planted import planted_arms
from pipelines.stages.command import parameters, read_json, run
from pipelines.stages.draft import engine_spec
from specdecode.errors import ConfigError

OUTPUT = "data/rows.parquet"
SPOOL = ".specdecode/spool"
TARGET = "models/target"
PLAIN = "plain"


def main() -> None:
    """Writes data/rows.parquet."""
    settings.work_offline()
    logging.basicConfig(level="INFO", format="%(message)s")  # progress where no bar can be drawn
    from specdecode.measurement.spool import RowSpool
    from specdecode.workload.offline import measure
    from specdecode.workload.sampling import settings_from
    from specdecode.workload.schedule import select_prompts

    params = parameters()
    decoding = params["decoding"]
    manifest = read_json("reports/manifest.json")["manifest_sha256"]
    prompts = select_prompts(
        pq.read_table("data/prompts.parquet"),
        params["prompts"]["split"],
        params["prompts"]["limit"],
    )
    limit = {"max_tokens": decoding["max_tokens"]}
    sampling = settings_from([{**limit, **option} for option in decoding["sampling"]])
    with RowSpool(SPOOL, manifest) as spool:
        if spool.done:
            say(f"Going on after {len(spool.done)} rows of an earlier run.")
        done = measure(
            prompts,
            engines(params, read_json("models/draft/manifest.json")),
            sampling,
            spool,
            master_seed=params["seeds"]["sampling"],
            manifest_sha256=manifest,
            profile=params["profile"],
        )
        spool.finish(OUTPUT)
    say(f"{done.total} rows, {done.failed} of them failed; see {OUTPUT}")


def engines(params: Mapping[str, Any], draft: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one engine per arm; all share one target in memory.

    Raises:
        ConfigError: an arm is named twice, or the baseline is missing, or a fault is to be planted
            that fits no arm.
    """
    import torch

    from specdecode import Engine
    from specdecode.models import load_model

    decoding = params["decoding"]
    arms = decoding["arms"]
    if PLAIN not in arms or len(set(arms)) < len(arms):
        raise ConfigError(
            f"decoding.arms in params.yaml must name '{PLAIN}' and every other arm once: {arms}"
        )
    if decoding["threads"] is not None:
        torch.set_num_threads(decoding["threads"])
    target = load_model(TARGET, device=decoding["device"], dtype=params["target"]["dtype"])
    say(f"The target decodes in {str(target.dtype).removeprefix('torch.')} on {target.device}.")
    made = {PLAIN: Engine.load(target=target, draft=None)}
    for arm in arms:
        if arm != PLAIN:
            made[arm] = Engine.load(
                target=target,
                draft=engine_spec(dict(draft)),
                verification=arm,
                num_speculative_tokens=decoding["num_speculative_tokens"],
            )
    for arm, fault in planted_arms(decoding).items():
        from specdecode.audit.faults import find_fault, plant

        say(f"Planting the fault '{fault}' in arm {arm}, as decoding.planted_fault asks.")
        made[arm] = plant(made[arm], find_fault(fault))
    return {arm: made[arm] for arm in arms}


if __name__ == "__main__":
    run(main)
