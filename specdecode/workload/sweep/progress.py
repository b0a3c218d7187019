"""Where a sweep is, for whoever wants to look."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from specdecode.workload.load.progress import Progress
from specdecode.workload.sweep.journal import Failure


@dataclass
class SweepProgress:
    """Where a sweep is; updated in place.

    Attributes:
        total: cells that were asked for.
        done: measured, those of earlier calls too.
        round: under way, from 1.
        arm: under way.
        concurrency: under way; None while its server starts.
        load: of the load run under way.
        failures: so far.
    """

    total: int
    done: int = 0
    round: int = 0
    arm: str = ""
    concurrency: int | None = None
    load: Progress | None = None
    failures: list[Failure] = field(default_factory=list)


Show = Callable[[SweepProgress], AbstractContextManager[Any]]
"""Shows progress while the context is open."""
