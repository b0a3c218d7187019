"""Asking people through Prefect: one run of the flow `approval` at a time for each verdict.

A run that ended (nobody signed in time, its worker was killed) and left signatures missing is
followed by another at the next look.
"""

from __future__ import annotations

from typing import cast

from prefect import get_run_logger
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound

from pipelines.flows.look import Look
from pipelines.flows.options import ReleaseOptions
from specdecode.governance.ladder_actions import AskApproval

MOST_RUNS = 20
"""Runs for one verdict; what ends that often is a fault of its own, and is left to people."""


def ask_people(found: Look, options: ReleaseOptions, deployment: str | None) -> None:
    """See that a run waits for signatures, if some are missing.

    Args:
        found: what a look came to.
        options: of the release.
        deployment: "flow/deployment"; None asks nobody here.
    """
    if not isinstance(found.action, AskApproval) or deployment is None:
        return
    digest = found.action.verdict_sha256
    for number in range(MOST_RUNS):
        try:
            begun = run_deployment(
                deployment,
                parameters={
                    "verdict_sha256": digest,
                    "release": options.model_dump(mode="json"),
                },
                timeout=0,
                idempotency_key=f"approval-{digest}-{number}",  # an old key gives the old run
                as_subflow=False,
            )
        except ObjectNotFound:
            get_run_logger().warning(
                "there is no deployment %s to wait for signatures; they are taken from beside the "
                "verdict and from the release's folder approvals/",
                deployment,
            )
            return
        state = cast("FlowRun", begun).state  # in a flow that is not async it is no coroutine
        if state is None or not state.is_final():
            return
    get_run_logger().warning(
        "%d runs of %s ended and verdict %s is not signed yet; see their logs, and sign the "
        "verdict's file (`specdecode approve`)",
        MOST_RUNS,
        deployment,
        digest,
    )
