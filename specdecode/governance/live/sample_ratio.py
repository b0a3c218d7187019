"""Does each step of a canary get its share of the traffic, and do both arms report alike?

Counted is what is assigned: each unit at its first row, and again each at its first row that has
the numbers the stage needs, since lost telemetry in one arm is the usual mismatch. (A failure that
was recorded is no lost number: the error rate judges it.) The tests of all steps share one alarm's
level. An alarm says that the arms cannot be compared, whatever they show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdecode.governance.live.alarms import SAMPLE_RATIO, alarms, metrics_of
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.live.scope import step_mask, steps_with
from specdecode.governance.live.units import conversation_of
from specdecode.governance.live.values import lacking
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import Stage
from specdecode.measurement.arrays import BoolArray
from specdecode.statistics.sample_ratio import sample_ratio_test


@dataclass(frozen=True)
class Mismatch:
    """An alarm.

    Args:
        step: in which.
        usable: whether among units with the needed numbers, else among all.
        at: units after which it came.
        share: of the candidate among those counted.
        counted: units.
    """

    step: str
    usable: bool
    at: int
    share: float
    counted: int


def mismatches(plan: Plan, stage: Stage, rows: LiveRows) -> list[Mismatch]:
    """Every alarm, in the order of steps; all units first."""
    if stage.steps is None or not len(rows):
        return []
    level = alarms(plan, stage).level(SAMPLE_RATIO) / (2 * len(stage.steps))
    arm, baseline, found = plan.candidates[0], plan.baseline, []
    usable = ~lacking(metrics_of(plan, stage), rows, arm)
    ours = (rows.texts["arm"] == arm) | (rows.texts["arm"] == baseline)
    for step in steps_with(stage, rows):
        if step is None:
            continue
        inside = step_mask(rows, step) & ours
        for only, chosen in ((False, inside), (True, inside & usable)):
            counted = rows.where(chosen)
            counted = counted.where(_first_of_unit(stage, counted))
            arms = (counted.texts["arm"] == arm).astype(np.float64)
            share = float(step)
            test = sample_ratio_test(arms, [1 - share, share], alpha=level)
            if test.rejected_at is not None:
                found.append(Mismatch(step, only, test.rejected_at, float(arms.mean()), len(arms)))
    return found


def _first_of_unit(stage: Stage, rows: LiveRows) -> BoolArray:
    """The first row of each unit; its later rows were not assigned anew."""
    first = np.zeros(len(rows), dtype=np.bool_)
    seen: set[str] = set()
    for place, prompt in enumerate(rows.prompts.tolist()):
        unit = conversation_of(prompt) if stage.unit == "conversation" else prompt
        first[place] = stage.unit == "request" or unit not in seen
        seen.add(unit)
    return first
