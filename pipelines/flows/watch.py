"""Flow `watch`: one look at what is live, by a schedule: failures, latency, acceptance, cost.

What is watched are the metrics of the plan's stage watch; an alarm takes the release back. Before a
promotion it looks as well, and takes back what does harm, but it never goes a step up.
"""

from __future__ import annotations

import os
from typing import Any

from prefect import flow, get_run_logger

from pipelines.flows.looking import WATCH, document, look_once
from pipelines.flows.options import DEFAULT_FILE, ENVIRONMENT, ReleaseOptions, options_of
from pipelines.flows.tracked import LookLog


@flow(name="watch", persist_result=False, retries=0)
def watch(release: ReleaseOptions | None = None) -> dict[str, Any] | None:
    """Looks once.

    Args:
        release: what is released; None: as the file says that SPECDECODE_RELEASE names.

    Returns:
        What it came to (`looking.document`); None where no release is described at all.
    """
    if release is None and ENVIRONMENT not in os.environ and not DEFAULT_FILE.exists():
        get_run_logger().info("%s: nothing is released here", DEFAULT_FILE)
        return None
    options = options_of(release)
    with LookLog(options, get_run_logger()) as shown:
        found = look_once(options, "flow watch", WATCH)
        shown.add(found)
    return document("watch", found)
