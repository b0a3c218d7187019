"""Plans with a whole ladder, and situations on it."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from specdecode.governance import Plan, Status, plan_sha256
from specdecode.governance.approvals import sign_approval
from specdecode.governance.dsse import Envelope
from specdecode.governance.ladder_facts import Decisions, Judged, Place, Router, Situation
from specdecode.governance.plan_stages import LADDER
from specdecode.rollout.state import RolloutState
from tests.governance.keys import ADA, GRACE, HOUR, LINUS, NOW, STRANGER, signers
from tests.governance.live_plans import CANARY, SHADOW, WATCH, live_plan

MANIFEST, OTHER, VERDICT = "a" * 64, "b" * 64, "c" * 64
STEPS = (0.05, 0.25, 0.5)
SIGNED = {"required_roles": ["owner", "reviewer"], "signers_file": "signers.yaml",
          "distinct_persons": True, "expires_days": 14}  # fmt: skip
PEOPLE = {"Ada": (ADA, "owner"), "Grace": (GRACE, "reviewer"), "Linus": (LINUS, "operator"),
          "nobody": (STRANGER, "owner")}  # fmt: skip


@cache
def ladder_plan(*names: str, signed: bool = False) -> Plan:
    """A plan with these live stages (by default all), which asks for two signatures or none."""
    own = {"shadow": SHADOW, "canary": CANARY | {"steps": list(STEPS)}, "watch": WATCH}
    stages = [own[name] for name in sorted(names or own, key=LADDER.index)]  # type: ignore[arg-type]
    fields: dict[str, Any] = {"approvals": SIGNED} if signed else {}
    return live_plan(*stages, **fields)


def state(
    mode: str, share: float | None = None, *, version: int = 3, **fields: Any
) -> RolloutState:
    """A router's state of this release."""
    whole = {"off": 0.0, "shadow": 1.0, "full": 1.0}
    given = {
        "version": version,
        "mode": mode,
        "share": whole.get(mode, 0.0) if share is None else share,
        "manifest_sha256": None if mode == "off" else MANIFEST,
    }
    return RolloutState.model_validate(given | fields)


def verdict_of(plan: Plan, place: Place, status: Status = Status.GO, **fields: Any) -> Judged:
    """A verdict of the place, on record where it is GO."""
    steps = [] if place.step is None else [s for s in STEPS if s <= float(place.step)]
    given: dict[str, Any] = {
        "place": place,
        "status": status,
        "plan_sha256": plan_sha256(plan),
        "manifest_sha256": MANIFEST,
        "steps": frozenset(f"{step:g}" for step in steps),
        "reasons": ("because",),
        "on_record": VERDICT if status is Status.GO else None,
    }
    return Judged(**(given | fields))


@cache
def decision(who: str, what: str = "approve", verdict: str = VERDICT, hours: int = 1) -> Envelope:
    """A decision of that person, signed so many hours ago."""
    key, role = PEOPLE[who]
    reason = None if what == "approve" else "a reason"
    return sign_approval(verdict, what, role, key, at=NOW - hours * HOUR,  # type: ignore[arg-type]
                         expires_days=14, reason=reason)  # fmt: skip


HEALTH = ("recording", "why", "mute", "sent_over_expected")
"""What a router says of itself beside its state."""


def situation(
    plan: Plan, at: RolloutState | None, judged: Judged | None = None, **more: Any
) -> Situation:
    """What is known where the router is at that state."""
    health = {name: more.pop(name) for name in HEALTH if name in more}
    router = None if at is None else Router(at, **health)
    decisions = Decisions(tuple(more.pop("envelopes", ())), signers(),
                          frozenset(more.pop("proposers", ())))  # fmt: skip
    return Situation(plan=plan, manifest_sha256=MANIFEST, now=NOW + timedelta(seconds=1),
                     router=router, judged=judged, decisions=decisions, **more)  # fmt: skip
