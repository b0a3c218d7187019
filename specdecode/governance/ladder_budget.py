"""Whether a live stage has used up what its plan lets it read, by data or by time.

Rows end a stage at `n_max` units, and its window ends it also when nobody sends any more requests.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from specdecode.governance.live.rows import read_live
from specdecode.governance.live.scope import scope_of
from specdecode.governance.plan_schema import Plan
from specdecode.measurement.source import TableSource


def spent(view: Plan, rows: pa.Table, step: str | None, now: datetime) -> str | None:
    """What is used up, in words; None while the stage may go on.

    Args:
        view: the plan as a live stage has it (`plan.at`).
        rows: of that stage, every step of it, valid; what `decide` was given.
        step: of a canary, the one that is open.
        now: by the clock of whoever asks.
    """
    stage = view.sequential_stage
    if stage is None or not len(rows):
        return None
    first: datetime | None = pc.min(rows.column("started_at")).as_py()
    if stage.window is not None and first is not None:
        length = timedelta(**{stage.window.per: stage.window.length})
        if now > first + length:
            return f"its window of {stage.window.length:g} {stage.window.per} is over"
    live = read_live(TableSource(rows))
    if scope_of(stage, live, step, view.candidates[0], view.baseline).spent:
        return f"all {stage.n_max} {stage.unit}s that it may read are read"
    return None
