"""A step of the running batch, with its costs for the acceptance guard."""

from __future__ import annotations

import time

from specdecode.decoding.joining import Added
from specdecode.decoding.running import RunningBatch
from specdecode.serving.guard import AcceptanceGuard


def timed_step(batch: RunningBatch, guard: AcceptanceGuard | None) -> tuple[Added, float]:
    """One step, before which the guard may have a plain one tried out.

    Args:
        batch: with a request in it.
        guard: told what steps cost; None for nobody.

    Returns:
        What the step added, and its seconds, without those of the trial.

    Raises:
        Exceptions of either step; then nobody's reply has changed, and the guard was told nothing.
    """
    rows = len(batch.requests)
    tried_s = None
    if guard is not None and guard.wants_plain_cost(rows):
        tried_s = batch.time_plain_step()
    begun = time.perf_counter()
    added = batch.step()
    seconds = time.perf_counter() - begun
    if guard is not None:
        if tried_s is not None:  # what surrounds the stages costs the same either way
            guard.plain_cost(rows, tried_s + seconds - batch.staged_s)
        guard.stepped(rows, seconds)
    return added, seconds
