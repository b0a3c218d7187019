"""Telling people and automations what was done, through Prefect's events.

An event may be lost. So nothing waits for one, and a failure to send it is a line in the log: users
get plain decoding back whether or not anybody can be told.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pipelines.flows.events import emit_escalation, emit_verdict
from specdecode.governance.ladder_actions import (
    Action,
    AskApproval,
    Hold,
    Promote,
    RollBack,
    SetState,
    Stop,
)
from specdecode.governance.ladder_facts import Place
from specdecode.governance.plan_schema import Plan
from specdecode.governance.verdict import Verdict

_SUBJECTS: dict[type[Action], tuple[str, str]] = {
    SetState: ("{plan} goes one step up", "none"),
    AskApproval: ("{plan} waits for signatures", "sign the verdict"),
    Hold: ("{plan} is held", "decide how to go on"),
    RollBack: ("{plan} was rolled back to plain decoding", "rolled back"),
    Stop: ("{plan} was stopped, users have plain decoding", "stopped; find out what happened"),
    Promote: ("{plan} was promoted, all users have it", "none"),
}
"""What is said of an action, and what was done or is asked for."""


@dataclass(frozen=True)
class Teller:
    """Tells of one release.

    Attributes:
        plan: its plan.
        manifest_sha256: what is released.
        log: hears of everything, and of events that could not be sent.
    """

    plan: Plan
    manifest_sha256: str
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]

    def __call__(self, place: Place | None, action: Action, verdict: Verdict | None) -> None:
        """Tell of an action; never raises."""
        subject, recovery = _SUBJECTS[type(action)]
        subject = subject.format(plan=self.plan.name)
        self.log.info("%s: %s (owner: %s)", subject, action.reason, action.owner)
        try:
            if verdict is not None and place is not None:
                document = verdict.to_json()
                # Rows that cannot be read name no manifest; what is told is about this one.
                document["manifest_sha256"] = self.manifest_sha256
                emit_verdict(
                    document,
                    stage=place.stage,
                    step=place.step,
                    owner=action.owner,
                    recovery=recovery,
                )
            if not isinstance(action, SetState):
                emit_escalation(
                    subject,
                    [action.reason],
                    owner=action.owner,
                    recovery=recovery,
                    stage=None if place is None else place.stage,
                    step=None if place is None else place.step,
                    plan_name=self.plan.name,
                    manifest_sha256=self.manifest_sha256,
                )
        except Exception:
            self.log.exception("nobody could be told of it through Prefect")
