"""The stage that rows come from, by which a plan has to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdecode.errors import ConfigError, EvidenceError
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import LIVE
from specdecode.governance.tables import as_rows
from specdecode.measurement.coding import Coder
from specdecode.measurement.source import Source, TableSource
from specdecode.rollout.spool_reader import Selection, SpoolSource, stages_of


def view_for(plan: Plan, rows: Path | Any) -> Plan:
    """The plan as the rows' stage has it.

    Rows of several stages, of one the plan lacks, or of none (there are none, or they cannot be
    read) leave the plan at its own stage, where `decide` says what is wrong with them.

    Args:
        plan: any view of it.
        rows: whatever `decide` takes.

    Raises:
        ConfigError: the rows are nothing `decide` takes, or the plan cannot judge their stage.
        EvidenceError: a path leads to no file.
    """
    given = as_rows(rows)
    stages = Coder()
    try:
        source = given if isinstance(given, Source) else TableSource(given)
        for batch in source.batches(["stage"]):
            stages.codes(batch.column("stage"))
    except EvidenceError:
        return plan
    names = {stage.name for stage in plan.whole.stages}
    found = set(stages.values)
    return plan.at(found.pop()) if len(found) == 1 and found <= names else plan


def of_spool(
    plan: Plan, folder: Path, stage: str | None = None, manifest_sha256: str | None = None
) -> tuple[Plan, SpoolSource]:
    """One stage out of a router's spool, which holds all of them: the plan's view, and its rows.

    Args:
        plan: any view of it.
        folder: of the spool.
        stage: which; None if the spool has rows of one only. Without any row it is the plan's first
            live stage, of which `decide` then says that it has none yet.
        manifest_sha256: only rows of this manifest; None for all.

    Raises:
        ConfigError: the spool has rows of several stages, or the plan cannot judge the stage.
        EvidenceError: the spool is damaged.
    """
    if stage is None:
        found = stages_of(folder, manifest_sha256)
        if len(found) > 1:
            raise ConfigError(f"{folder} has rows of {' and '.join(found)}; say which with --stage")
        first = [each.name for each in plan.whole.stages if each.name in LIVE]
        stage = (found or first or [plan.stage])[0]
    selection = Selection(stage=stage, manifest_sha256=manifest_sha256)
    return plan.at(stage), SpoolSource(folder, selection)
