"""What flows tell Prefect beside their own states: a verdict was reached, a person is needed.

Automations listen to these events (pipelines/deployments/automations.py): one rolls back, one
calls the webhook of those who are on duty. An event is a message and nothing more. It may be lost
or arrive twice, so a flow acts on its verdict itself, and whatever listens must bear to hear the
same thing again: an event has the same id each time it is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect.events import emit_event

VERDICT = "specdecode.verdict"
ESCALATION = "specdecode.escalation"

STATUS_LABEL = "specdecode.status"
STAGE_LABEL = "specdecode.stage"

ESCALATED = "ESCALATED"
"""Stands in the label of the status when there is no verdict but a person is needed."""
BAD = ("NO_GO", "INVALID")
"""Statuses after which users get plain decoding again."""
LIVE = ("shadow", "canary", "watch")
"""Stages in which users are concerned, so that there is something to roll back."""

MOST_REASONS = 10
LONGEST_REASON = 500


def emit_verdict(
    verdict: Mapping[str, Any], *, stage: str, step: str | None, owner: str, recovery: str
) -> UUID:
    """Tells that a verdict was reached, once per verdict, stage and step.

    Args:
        verdict: the document `decide` wrote.
        stage: stage of the plan it is about.
        step: step of a canary, such as "0.05"; null elsewhere.
        owner: who acts on it: of the plan, or of the stop condition that was met.
        recovery: what is done about it: of a stop condition, or "none" after a GO.

    Returns:
        The id of the event, whether or not a server was there to take it.
    """
    status = str(verdict["status"])
    reasons = _short(verdict.get("reasons", ()))
    told = {
        "status": status,
        "stage": stage,
        "step": step,
        "owner": owner,
        "recovery": recovery,
        "plan_name": verdict.get("plan_name"),
        "plan_sha256": verdict.get("plan_sha256"),
        "manifest_sha256": verdict.get("manifest_sha256"),
        "rows_sha256": verdict.get("rows_sha256"),
        "rows": verdict.get("rows"),
        "reasons": reasons,
    }
    text = escalation_text(
        f"{status} at {where(stage, step)}: {verdict.get('plan_name')}",
        reasons,
        owner=owner,
        recovery=recovery,
    )
    return _emit(
        VERDICT,
        identity=told,
        resource=_resource(verdict.get("plan_name"), verdict.get("manifest_sha256"))
        | {STATUS_LABEL: status, STAGE_LABEL: stage, "specdecode.step": step or ""},
        payload={**told, "text": text},
    )


def emit_escalation(
    subject: str,
    reasons: Sequence[str],
    *,
    owner: str,
    recovery: str,
    stage: str | None = None,
    step: str | None = None,
    plan_name: str | None = None,
    manifest_sha256: str | None = None,
) -> UUID:
    """Asks a person to act: an approval is wanted, a stage is held, a roll-back did not succeed.

    Args:
        subject: what has happened, in one line.
        reasons: why, most important first.
        owner: who is to act.
        recovery: what is asked for, or what was done already.
        stage: stage of the plan, if it is about one.
        step: step of a canary.
        plan_name: the plan's name.
        manifest_sha256: what is under judgement.

    Returns:
        The id of the event, the same for the same words.
    """
    short = _short(reasons)
    told = {
        "subject": subject,
        "stage": stage,
        "step": step,
        "owner": owner,
        "recovery": recovery,
        "plan_name": plan_name,
        "manifest_sha256": manifest_sha256,
        "reasons": short,
    }
    text = escalation_text(subject, short, owner=owner, recovery=recovery)
    return _emit(
        ESCALATION,
        identity=told,
        resource=_resource(plan_name, manifest_sha256)
        | {STATUS_LABEL: ESCALATED, STAGE_LABEL: stage or ""},
        payload={**told, "text": text},
    )


def escalation_text(subject: str, reasons: Sequence[str], *, owner: str, recovery: str) -> str:
    """The message a person reads: what, who, what is done about it, and why."""
    lines = [subject, f"Owner: {owner}", f"Recovery: {recovery}"]
    return "\n".join([*lines, *(f"- {reason}" for reason in _short(reasons))])


def where(stage: str, step: str | None) -> str:
    """A stage in words: "canary 0.05", "watch"."""
    return stage if step is None else f"{stage} {step}"


def _short(reasons: Sequence[str]) -> list[str]:
    """The first reasons, cut: an event has a largest size, and the verdict file has them all."""
    kept = [str(reason)[:LONGEST_REASON] for reason in reasons[:MOST_REASONS]]
    more = len(reasons) - len(kept)
    return [*kept, f"and {more} more"] if more else kept


def _resource(plan_name: object, manifest_sha256: object) -> dict[str, str]:
    return {
        "prefect.resource.id": f"specdecode.release.{manifest_sha256 or 'unknown'}",
        "prefect.resource.name": str(plan_name or "unknown plan"),
    }


def _emit(
    event: str, *, identity: Mapping[str, Any], resource: dict[str, str], payload: dict[str, Any]
) -> UUID:
    words = json.dumps([event, identity], sort_keys=True, ensure_ascii=False)
    identifier = uuid5(NAMESPACE_URL, words)
    emit_event(event, resource=resource, payload=payload, id=identifier)
    return identifier
