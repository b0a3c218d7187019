"""Flow `promote`: the last step to all users, and the registry's alias.

In this order: the bundle of the last step's verdict is written and verified; the router gives all
users the candidate, if it is still at the state that was judged; the alias moves, if the champion
is still the one that is to be replaced. A run that is killed in between is gone on with. The flow
`canary` does the same at its end; this one is for a release that waits there.
"""

from __future__ import annotations

from typing import Any

from prefect import flow

from pipelines.flows.looking import PROMOTE, Patience, document, keep_looking
from pipelines.flows.options import ReleaseOptions, options_of


@flow(name="promote", persist_result=False, retries=0)
def promote(
    release: ReleaseOptions | None = None, for_s: float = 0.0, every_s: float = 30.0
) -> dict[str, Any]:
    """Promotes a release whose last step is GO and signed.

    Args:
        release: what is released; None: as the file says that SPECDECODE_RELEASE names.
        for_s: how long this run waits for more; 0 goes on only while something changes.
        every_s: seconds between two looks.

    Returns:
        What the last look came to (`looking.document`).
    """
    found = keep_looking(options_of(release), "flow promote", PROMOTE, Patience(for_s, every_s))
    return document("promote", found)
