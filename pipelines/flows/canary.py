"""Flow `canary`: step by step to half of the users, and then to all of them.

Each step up needs GO of the step before and the signatures the plan asks for. The last one needs a
bundle that verifies, and moves the registry's alias (see `promote`). Harm leads back to plain
decoding at once, whoever has signed what.
"""

from __future__ import annotations

from typing import Any

from prefect import flow

from pipelines.flows.climbing import climb
from pipelines.flows.looking import CANARY, Patience
from pipelines.flows.options import ReleaseOptions


@flow(name="canary", persist_result=False, retries=0)
def canary(
    release: ReleaseOptions | None = None,
    for_s: float = 0.0,
    every_s: float = 30.0,
    approval: str | None = "approval/approval",
) -> dict[str, Any]:
    """Takes a release from a shadow that is GO to all users.

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
    return climb("canary", CANARY, release, Patience(for_s, every_s), approval)
