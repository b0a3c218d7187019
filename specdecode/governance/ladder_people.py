"""Whether people have signed what a plan asks them to sign, before a GO is acted on."""

from __future__ import annotations

from collections import Counter

from specdecode.governance.approvals import Finding, Flaw, check_approvals, recorded_status
from specdecode.governance.ladder_actions import Action, AskApproval
from specdecode.governance.ladder_facts import Place, Situation
from specdecode.governance.ladder_words import hold, some
from specdecode.governance.signers import Signers
from specdecode.governance.verdict import Status


def not_signed(known: Situation, place: Place, verdict_sha256: str) -> Action | None:
    """What stands in the way of acting on a GO, of what people decided; None: nothing."""
    asked, given = known.plan.approvals, known.decisions
    if given.exploratory:
        return hold(known, f"{place}: EXPLORATORY: {some(given.exploratory)}", ended=True)

    def findings(*roles: str) -> list[Finding]:
        return check_approvals(
            verdict_sha256,
            given.envelopes,
            given.signers or Signers([]),
            roles,
            distinct=asked.distinct_persons,
            now=known.now,
            proposers=given.proposers if asked.distinct_persons else (),
        )

    # An expired signature is no objection: the person signs anew, and the record keeps both.
    flawed = [f for f in findings() if f.flaw not in (Flaw.EXPIRED, Flaw.REPLAYED)]
    if against := [f for f in flawed if f.flaw in (Flaw.OVERRIDDEN, Flaw.REJECTED)]:
        return hold(known, f"{place}: {against[0].message}", ended=True)
    missing = tuple(
        role
        for role, count in Counter(asked.required_roles).items()
        if any(f.flaw is Flaw.MISSING for f in findings(*[role] * count))
    )
    if missing:
        notes = [finding.message for finding in findings()]
        return AskApproval(
            reason=f"{place}: GO, to be signed as {', '.join(missing)}"
            + (f" ({some(notes)})" if notes else ""),
            owner=known.plan.owner,
            verdict_sha256=verdict_sha256,
            roles=missing,
        )
    if recorded_status(Status.GO, flawed) != "GO":  # a question beside the answer
        return hold(known, f"{place}: {flawed[0].message}", ended=True)
    return None
