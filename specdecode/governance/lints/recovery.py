"""Stop conditions that would not stop anything."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.governance.lints.base import Lint
from specdecode.governance.plan_schema import Plan


def _stop_without_owner(plan: Plan) -> Iterator[str]:
    for stop in plan.stop_conditions:
        if stop.owner is None:
            yield f"nobody owns the stop condition '{stop.condition}'"


def _recovery_untested(plan: Plan) -> Iterator[str]:
    for stop in plan.stop_conditions:
        if stop.tested is None:
            yield f"'{stop.condition}' leads to {stop.recovery}, which was never tried"


LINTS = (
    Lint("stop-without-owner", "error", _stop_without_owner, "name who acts at night, too"),
    Lint(
        "recovery-untested",
        "error",
        _recovery_untested,
        "try it, and write down how and when",
    ),
)
