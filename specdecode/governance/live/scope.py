"""Which rows of a live stage count: within its window, and up to `n_max` units of the candidate.

Of a canary each step is counted by itself. Whatever comes later is not judged, and said so. The
baseline ends with the candidate's last unit, from the moment that one is there: were it read on
until the candidate's next, a decision could come in between and be gone again after. A shadow's
pairs end with the candidate by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from specdecode.governance.live.alarms import step_names
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.live.units import Units, units_of
from specdecode.governance.plan_stages import Stage
from specdecode.measurement.arrays import BoolArray

_MICROSECONDS = {"minutes": 60 * 10**6, "hours": 3600 * 10**6, "days": 86400 * 10**6}


@dataclass(frozen=True)
class Scope:
    """The rows of one stage, or of one step of it, that count.

    Args:
        arm: the candidate's.
        baseline: the other arm's.
        beyond: units (or rows of the candidate) that came too late to count.
        open: rows of conversations that have not ended yet, and of prompts that were repeated.
        spent: whether the stage may not read more: `n_max` or the window is reached.
        now: start of the newest row of all, microseconds.
    """

    arm: LiveRows
    baseline: LiveRows
    beyond: int
    open: int
    spent: bool
    now: int

    def within(self, by: str, value: str) -> Scope:
        """The rows of one stratum, cut where the whole was."""
        arm, baseline = self.arm.of(by, value), self.baseline.of(by, value)
        return replace(self, arm=arm, baseline=baseline, beyond=0, open=0)


def scope_of(stage: Stage, rows: LiveRows, step: str | None, arm: str, baseline: str) -> Scope:
    """Cuts the rows where the stage has to have decided.

    Args:
        stage: with its window, unit and n_max.
        rows: all rows of the stage.
        step: of a canary, as the rows' `profile` names it; None for all rows.
        arm: the candidate's name.
        baseline: the other arm's.
    """
    now = int(rows.time[-1]) if len(rows) else 0
    late, over = 0, False
    own = rows
    if stage.window is not None and len(rows):
        end = int(rows.time[0]) + stage.window.length * _MICROSECONDS[stage.window.per]
        inside = rows.time <= end
        own, over = rows.where(inside), not bool(inside.all())
        late = int((~inside & (rows.texts["arm"] == arm)).sum())
    if step is not None:
        own = own.where(step_mask(own, step))
    candidate, other = own.of("arm", arm), own.of("arm", baseline)
    units = units_of(stage.unit, candidate.time, candidate.prompts, now=now)
    total, most = len(units), stage.n_max
    uncounted = int((units.of_row < 0).sum())
    if most is None or total < most:
        return Scope(candidate, other, late, uncounted, over, now)
    if stage.name != "shadow":
        others = units_of(stage.unit, other.time, other.prompts, now=now)
        in_time = int(np.searchsorted(others.time, units.time[most - 1], side="right"))
        other = other.where(_first(others, in_time))
    beyond = late + total - most
    return Scope(candidate.where(_first(units, most)), other, beyond, uncounted, True, now)


def _first(units: Units, n: int) -> BoolArray:
    """Rows of the first n units."""
    return np.asarray((units.of_row >= 0) & (units.of_row < n), dtype=np.bool_)


def steps_with(stage: Stage, rows: LiveRows) -> list[str | None]:
    """Steps of a canary that have rows; the first one where none has. Of other stages, [None]."""
    names = step_names(stage)
    if stage.steps is None:
        return names
    found = {step_of(profile) for profile in set(rows.texts["profile"].tolist())}
    return [name for name in names if name in found] or names[:1]


def step_mask(rows: LiveRows, step: str) -> BoolArray:
    """Rows whose profile is a step, however its share is spelled ("0.50" is 0.5)."""
    names = {text: step_of(text) == step for text in set(rows.texts["profile"].tolist())}
    return np.array([names[text] for text in rows.texts["profile"].tolist()], dtype=np.bool_)


def step_of(profile: str | None) -> str | None:
    """The share a profile names, as `alarms.step_names` writes it; None where it names none."""
    try:
        return f"{float(profile):g}" if profile is not None else None
    except ValueError:
        return None
