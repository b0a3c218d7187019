"""Flow `approval`: waits, paused, for a signature on a verdict, and puts it on record.

Prefect does not know who resumes a run. So the input is a signed decision: the content of the file
that `specdecode approve` writes, on whatever machine the key is. What is no decision of a listed
signer on this very verdict is refused, and asked for again.
"""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from pydantic import Field

from pipelines.flows.assembling import people_of
from pipelines.flows.options import ReleaseOptions, options_of
from specdecode.governance.ladder_actions import AskApproval, Hold
from specdecode.governance.ladder_facts import Place, Situation
from specdecode.governance.ladder_people import not_signed

DAY_S = 86_400
MOST_ASKED = 50
"""Inputs that are looked at before the run gives up; a new run begins anew."""


class SignedDecision(RunInput):
    """What a person hands in."""

    envelope: str = Field(description="content of the .approval.json file, as it is")


@flow(name="approval", persist_result=False, retries=0)
def approval(
    verdict_sha256: str,
    release: ReleaseOptions | None = None,
    timeout_s: int | None = None,
    poll_s: int = 10,
) -> dict[str, Any]:
    """Waits until a verdict has the signatures its plan asks for, or somebody objects.

    Args:
        verdict_sha256: of the verdict's file.
        release: what is released; None: as the file says that SPECDECODE_RELEASE names.
        timeout_s: for how long each signature is waited for; None: as many days as a signature
            counts by the plan.
        poll_s: seconds between two questions whether it has come.

    Returns:
        {"signed": …, "missing": […], "why": …}.
    """
    people = people_of(options_of(release))
    logger = get_run_logger()
    limit = timeout_s or people.plan.approvals.expires_days * DAY_S
    why = None
    for number in range(MOST_ASKED):
        known = Situation(
            plan=people.plan,
            manifest_sha256="",
            now=people.clock(),
            router=None,
            decisions=people.on(verdict_sha256),
        )
        waiting = not_signed(known, Place("verdict"), verdict_sha256)
        if waiting is None:
            return {"signed": True, "missing": [], "why": None}
        if isinstance(waiting, Hold):
            return {"signed": False, "missing": [], "why": waiting.reason}
        missing = waiting.roles if isinstance(waiting, AskApproval) else ()
        logger.info("%s; refused before: %s", waiting.reason, why)
        try:
            given = pause_flow_run(
                wait_for_input=SignedDecision.with_initial_data(
                    description=_asked(verdict_sha256, missing, why)
                ),
                timeout=limit,
                poll_interval=poll_s,
                key=f"{verdict_sha256[:16]}-{number}",
            )
        except FlowPauseTimeout:
            return {"signed": False, "missing": list(missing), "why": "nobody signed in time"}
        why = people.take(f"{given.envelope.strip()}\n".encode(), verdict_sha256)
        if why is not None:
            logger.warning("refused: %s", why)
    return {"signed": False, "missing": [], "why": f"{MOST_ASKED} inputs, the last: {why}"}


def _asked(verdict_sha256: str, roles: tuple[str, ...], why: str | None) -> str:
    """What the form says."""
    lines = [
        f"Sign verdict `{verdict_sha256}` as {' and '.join(roles)}:",
        "`specdecode approve VERDICT --plan PLAN --key YOURS`, and paste the file it writes.",
    ]
    return "\n\n".join([*lines, *([f"The last input was refused: {why}"] if why else [])])
