"""How the flows of a release look at it: once, or again and again until there is no more to do.

Nothing is kept between looks but what is on disk and in the router. So a run may end at any moment,
by a crash or because its time is over; the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from pipelines.flows.assembling import release_of
from pipelines.flows.journal import AnotherRunError
from pipelines.flows.look import Look, look, run
from pipelines.flows.options import ReleaseOptions
from specdecode.governance.ladder_actions import Hold
from specdecode.rollout.state import Mode

SHADOW: tuple[Mode, ...] = ("shadow",)
CANARY: tuple[Mode, ...] = ("canary", "full")
PROMOTE: tuple[Mode, ...] = ("full",)
WATCH: tuple[Mode, ...] = ()
"""Modes that each flow may set. Back to "off" every one of them may."""


@task(task_run_name="look: {by}", cache_policy=NO_CACHE, persist_result=False, retries=0)
def look_once(options: ReleaseOptions, by: str, may: tuple[Mode, ...]) -> Look:
    """One look; while another run has the release, there is nothing to do.

    Raises:
        ConfigError: the options, the plan or the token are wrong.
        TamperedError: journal, ledger or seal are not what was written.
    """
    logger = get_run_logger()
    release = release_of(options, by, logger)
    try:
        found = run(look(release, frozenset(may)))
    except AnotherRunError as error:
        found = Look(Hold(reason=str(error), owner=release.plan.owner))
    logger.info("%s: %s", type(found.action).__name__, found.action.reason)
    for why in found.refused:
        logger.warning("a signature was refused: %s", why)
    return found


@dataclass(frozen=True)
class Patience:
    """How long a run goes on looking.

    Attributes:
        for_s: seconds to wait for more; 0 goes on only while something changes.
        every_s: seconds between two looks, where nothing has changed.
        clock: seconds that never go back.
        wait: sleeps.
    """

    for_s: float = 0.0
    every_s: float = 30.0
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] = time.sleep


def keep_looking(
    options: ReleaseOptions,
    by: str,
    may: tuple[Mode, ...],
    patience: Patience,
    on_look: Callable[[Look], object] = lambda _: None,
) -> Look:
    """Look until the flow has no more to do, or its time is over.

    Args:
        options: of the release.
        by: name of the flow.
        may: modes it may set.
        patience: how long, how often.
        on_look: called with what each look came to.
    """
    end = patience.clock() + patience.for_s
    while True:
        found = look_once(options, by, may)
        on_look(found)
        options = begun(options, found)
        if found.ended or found.arrived:
            return found
        if found.again:
            continue
        if patience.clock() + patience.every_s > end:
            return found
        patience.wait(patience.every_s)


def begun(options: ReleaseOptions, found: Look) -> ReleaseOptions:
    """A person's word to begin again is used up by beginning."""
    return options.model_copy(update={"begin_again": False}) if found.again else options


def document(flow: str, found: Look) -> dict[str, Any]:
    """What a flow returns: JSON-safe, and all that a person or another flow needs to know."""
    judged = found.judged
    return {
        "flow": flow,
        "action": type(found.action).__name__,
        "carried_out": found.carried_out,
        "ended": found.ended,
        "reason": found.action.reason,
        "owner": found.action.owner,
        "stage": None if found.place is None else found.place.stage,
        "step": None if found.place is None else found.place.step,
        "status": None if judged is None else judged.status.value,
        "verdict_sha256": None if judged is None else judged.on_record,
        "refused": list(found.refused),
    }
