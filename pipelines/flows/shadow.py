"""Flow `shadow`: copies of live requests go to the candidate, until its plan's stage has decided.

Users see the baseline only. The run begins the shadow where nothing has begun yet, judges what the
router records, and ends when the stage is GO (what comes next is the flow `canary`'s), was taken
back, or is held for a person. Run it again at any time: it goes on where the router is.
"""

from __future__ import annotations

from typing import Any

from prefect import flow

from pipelines.flows.climbing import climb
from pipelines.flows.looking import SHADOW, Patience
from pipelines.flows.options import ReleaseOptions


@flow(name="shadow", persist_result=False, retries=0)
def shadow(
    release: ReleaseOptions | None = None,
    for_s: float = 0.0,
    every_s: float = 30.0,
    approval: str | None = "approval/approval",
) -> dict[str, Any]:
    """Takes a release through the stage shadow.

    Args:
        release: what is released; None: as the file says that SPECDECODE_RELEASE names.
        for_s: how long this run waits for more; 0 goes on only while something changes, which is
            for a schedule.
        every_s: seconds between two looks.
        approval: deployment of the flow `approval`, which waits for signatures; None: people sign
            the verdict's file (`specdecode approve`).

    Returns:
        What the last look came to (`looking.document`).
    """
    return climb("shadow", SHADOW, release, Patience(for_s, every_s), approval)
