"""What happens by itself on a server.

An automation is a safety net and a messenger. The flow that reaches a verdict acts on it; when that
flow dies right after, the roll-back still comes, started by the event it had emitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState, RunDeployment
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture

from pipelines.deployments.settings import TAG, Settings
from pipelines.flows.events import (
    BAD,
    ESCALATED,
    ESCALATION,
    LIVE,
    STAGE_LABEL,
    STATUS_LABEL,
    VERDICT,
)

SILENCE = timedelta(seconds=540)
"""Three heartbeats of a flow run at Prefect's default of 180 s."""

ROLLBACK = "rollback/rollback"
ROLLBACK_PARAMETERS = {
    "manifest_sha256": "{{ event.payload.manifest_sha256 }}",
    "reason": "{{ event.payload.text }}",
}
"""What the roll-back is told: which release, so that it never ends a newer one, and why."""

EVENT_TEXT = '{"text": {{ event.payload.text | tojson }}}'
"""What a webhook gets, in the form chat tools take."""

OURS: dict[str, Any] = {
    "prefect.resource.role": ["tag"],
    "prefect.resource.id": [f"prefect.tag.{TAG}"],
}


def wanted_automations(*, rollback: UUID, webhook: UUID | None, owner: str) -> list[AutomationCore]:
    """The automations of a server.

    Args:
        rollback: the deployment that rolls back.
        webhook: the block that tells people; null: nobody is told.
        owner: who is named where an event names nobody.
    """
    found = [_crash_the_silent(), _roll_back(rollback)]
    if webhook is None:
        return found
    return [*found, _tell_of_verdicts(webhook), _tell_of_runs(webhook, owner)]


def apply_automations(
    client: SyncPrefectClient, settings: Settings, webhook: UUID | None
) -> Iterator[str]:
    """Brings the automations to their state and yields what was changed.

    One that a person switched off stays off, and one whose name is not here is left alone.
    """
    rollback = client.read_deployment_by_name(ROLLBACK).id
    for wanted in wanted_automations(rollback=rollback, webhook=webhook, owner=settings.owner):
        found = [
            automation
            for automation in client.read_automations_by_name(wanted.name)
            if automation.name == wanted.name
        ]
        if not found:
            client.create_automation(wanted)
            yield f"created automation '{wanted.name}'"
            continue
        first, *others = found
        for other in others:  # two of them would act twice
            client.delete_automation(other.id)
            yield f"deleted a second automation '{wanted.name}'"
        if changed := differences(wanted, first):
            client.update_automation(first.id, wanted.model_copy(update={"enabled": first.enabled}))
            yield f"updated automation '{wanted.name}': {', '.join(changed)}"


def differences(wanted: AutomationCore, found: Automation) -> list[str]:
    """In what an automation on the server is not the wanted one."""
    fields = ("description", "tags", "trigger", "actions")
    return [name for name in fields if getattr(wanted, name) != getattr(found, name)]


def _crash_the_silent() -> AutomationCore:
    return AutomationCore(
        name="specdecode: crash runs that have gone silent",
        description="A run whose worker died stays Running and holds its slot; its heartbeat ends.",
        tags=[TAG],
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.*"},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            match_related=OURS,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                message=f"No heartbeat for {SILENCE.total_seconds():.0f} s: its process is gone. "
                "Start the flow again; it goes on from what is on record.",
            )
        ],
    )


def _roll_back(deployment: UUID) -> AutomationCore:
    return AutomationCore(
        name="specdecode: roll back",
        description="NO_GO or INVALID where users are concerned: they get plain decoding again.",
        tags=[TAG],
        trigger=EventTrigger(
            expect={VERDICT},
            match={STATUS_LABEL: list(BAD), STAGE_LABEL: list(LIVE)},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            RunDeployment(
                source="selected", deployment_id=deployment, parameters=ROLLBACK_PARAMETERS
            )
        ],
    )


def _tell_of_verdicts(webhook: UUID) -> AutomationCore:
    return AutomationCore(
        name="specdecode: tell of verdicts and escalations",
        description="Calls the webhook with the owner, the recovery and the reasons.",
        tags=[TAG],
        trigger=EventTrigger(
            expect={VERDICT, ESCALATION},
            match={STATUS_LABEL: [*BAD, ESCALATED]},  # a GO or a hold wakes nobody
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            CallWebhook(
                block_document_id=webhook, payload='{"text": {{ event.payload.text | tojson }}}'
            )
        ],
    )


def _tell_of_runs(webhook: UUID, owner: str) -> AutomationCore:
    # A string of Jinja, as JSON writes it: whatever the owner's name holds, it stays a name.
    name = json.dumps(owner, ensure_ascii=False)
    words = (
        '{"text": {{ ("Flow run " ~ flow_run.name ~ " of " ~ flow.name ~ ": " ~ flow_run.state.name'
        ' ~ ". " ~ (flow_run.state.message or "") ~ "\\nOwner: " ~ ' + name + ") | tojson }}}"
    )
    return AutomationCore(
        name="specdecode: tell of runs that crashed or failed",
        description="A crash, a failure and a time-out are no verdict; a person must look.",
        tags=[TAG],
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{state}" for state in ("Crashed", "Failed", "TimedOut")},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            match_related=OURS,
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=words)],
    )
