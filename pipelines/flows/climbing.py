"""What the flows that take a release up have in common: look, ask people, show, until the end."""

from __future__ import annotations

from typing import Any

from prefect import get_run_logger

from pipelines.flows.asking import ask_people
from pipelines.flows.look import Look
from pipelines.flows.looking import Patience, document, keep_looking
from pipelines.flows.options import ReleaseOptions, options_of
from pipelines.flows.tracked import LookLog
from specdecode.rollout.state import Mode


def climb(
    flow: str,
    may: tuple[Mode, ...],
    release: ReleaseOptions | None,
    patience: Patience,
    approval: str | None,
) -> dict[str, Any]:
    """Look until the flow has no more to do, or its time is over.

    Args:
        flow: its name.
        may: modes it may set.
        release: what is released; None: as the file says that SPECDECODE_RELEASE names.
        patience: how long, how often.
        approval: deployment of the flow that waits for signatures; None asks nobody here.

    Returns:
        What the last look came to (`looking.document`).
    """
    options = options_of(release)
    with LookLog(options, get_run_logger()) as shown:

        def on_look(found: Look) -> None:
            shown.add(found)  # first: the look of another flow meanwhile would be a newer one
            ask_people(found, options, approval)

        return document(flow, keep_looking(options, f"flow {flow}", may, patience, on_look))
