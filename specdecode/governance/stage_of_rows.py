"""The stage that rows come from, by which a plan has to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdecode.errors import EvidenceError
from specdecode.governance.plan_schema import Plan
from specdecode.governance.tables import as_rows
from specdecode.measurement.coding import Coder
from specdecode.measurement.source import Source, TableSource


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
