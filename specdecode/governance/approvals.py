"""Approvals: signatures of people over one verdict, for a limited time.

They say that a GO may be acted on. They make nothing a GO: an override is recorded as OVERRIDDEN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, parse_envelope, sign_payload, verify_envelope
from specdecode.governance.ledger import Ledger
from specdecode.governance.signers import Signer, Signers
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import (
    Approval,
    Decision,
    make_predicate,
    read_statement,
    write_statement,
)
from specdecode.governance.timestamps import parse_utc, utc_text
from specdecode.governance.verdict import Status

RecordedStatus = Literal["INVALID", "NO_GO", "INCONCLUSIVE", "GO", "OVERRIDDEN"]


class Flaw(StrEnum):
    """Why an approval does not count, or the verdict is not approved."""

    TAMPERED = "tampered"
    UNKNOWN_KEY = "unknown key"
    KEY_NOT_VALID = "key not valid"
    REPLAYED = "replayed"
    POST_DATED = "post-dated"
    EXPIRED = "expired"
    WRONG_ROLE = "wrong role"
    PROPOSER = "proposer"
    SAME_PERSON = "same person"
    REJECTED = "rejected"
    OVERRIDDEN = "overridden"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with the approvals of a verdict."""

    flaw: Flaw
    message: str


def sign_approval(
    verdict_sha256: str,
    decision: Decision,
    role: str,
    signer: SigningKey,
    *,
    at: datetime,
    expires_days: int,
    reason: str | None = None,
) -> Envelope:
    """A person's decision on one verdict.

    Args:
        verdict_sha256: of the verdict's bytes.
        decision: approve, reject, or override: go on against the verdict.
        role: as the signers file gives it to the key.
        signer: the person's key.
        at: when it is signed.
        expires_days: for how many days it counts.
        reason: needed for all but an approval.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    approval = make_predicate(
        Approval,
        verdict_sha256=verdict_sha256,
        decision=decision,
        role=role,
        at=utc_text(at),
        expires=utc_text(at + timedelta(days=expires_days)),
        reason=reason,
    )
    return sign_payload(write_statement(approval), signer)


def record_approval(envelope: Envelope, ledger: Ledger) -> Entry:
    """Put a decision on record, as kind "approval", or "override" for one against the verdict.

    The body is {"verdict_sha256", "decision", "approval_sha256", "envelope"}. What it is worth is
    `check_approvals`' matter.

    Raises:
        ConfigError: it is on record already, or was signed at a time yet to come.
        TamperedError: the ledger is broken, or the envelope holds no approval.
    """
    approval, _ = read_statement(envelope, Approval)
    digest = envelope.sha256

    def new(entries: Sequence[Entry]) -> None:
        if any(e.body.get("approval_sha256") == digest for e in entries):
            raise ConfigError("this very decision is on record already")
        now = ledger.next_time(entries)
        if parse_utc(approval.at) > now:
            raise ConfigError(
                f"the decision was signed at {approval.at}, and by the ledger it is "
                f"{utc_text(now)}: set the clock right and sign it again"
            )

    body = {
        "verdict_sha256": approval.verdict_sha256,
        "decision": approval.decision,
        "approval_sha256": digest,
        "envelope": envelope.to_json(),
    }
    kind: Literal["override", "approval"] = (
        "override" if approval.decision == "override" else "approval"
    )
    return ledger.append(kind, body, guard=new)


def check_approvals(
    verdict_sha256: str,
    envelopes: Sequence[Envelope],
    signers: Signers,
    required: Sequence[str],
    *,
    distinct: bool,
    now: datetime,
    proposers: Collection[str] = (),
) -> list[Finding]:
    """What stands against acting on a verdict: [] when every required approval is there.

    Args:
        verdict_sha256: the verdict in question.
        envelopes: decisions on it.
        signers: whose signatures count, and in which role.
        required: roles that must each approve; a role named twice needs two people.
        distinct: whether one person counts once altogether; else once in each role.
        now: when the verdict is to be acted on.
        proposers: names of all who proposed the change, who cannot approve it.

    Returns:
        Findings in the order of the envelopes, then one for each approval that is missing. An
        approval with a finding does not count. A rejection or override is a finding itself.
    """
    findings: list[Finding] = []
    counted: list[Signer] = []
    for envelope in envelopes:
        found = _examine(envelope, verdict_sha256, signers, now, proposers)
        if isinstance(found, Finding):
            findings.append(found)
        elif any(
            found.name == other.name and (distinct or found.role == other.role) for other in counted
        ):
            message = f"{found.name} approved twice; it takes another person"
            findings.append(Finding(Flaw.SAME_PERSON, message))
        else:
            counted.append(found)
    missing = Counter(required) - Counter(signer.role for signer in counted)
    for role, count in missing.items():
        message = f"{count} approval{'s' * (count > 1)} as {role} missing"
        findings.append(Finding(Flaw.MISSING, message))
    return findings


_TOO_MANY = {Flaw.PROPOSER, Flaw.SAME_PERSON}


def recorded_status(
    status: Status, findings: Sequence[Finding], exploratory: Sequence[str] = ()
) -> RecordedStatus:
    """What goes on record once the decisions on a verdict are in.

    Args:
        status: of the verdict.
        findings: of `check_approvals`.
        exploratory: of `amendments.exploratory`: why a GO confirms nothing.

    Returns:
        OVERRIDDEN if someone went on against the verdict, whatever else is true. NO_GO instead of a
        GO that was rejected, INCONCLUSIVE instead of one that is not approved or is exploratory.
        Else the verdict's. A signature too many, by who proposed or by who has signed already, does
        not count and holds nothing up.
    """
    flaws = {finding.flaw for finding in findings} - _TOO_MANY
    if Flaw.OVERRIDDEN in flaws:
        return "OVERRIDDEN"
    if status is not Status.GO or not (flaws or exploratory):
        return status.value
    return "NO_GO" if Flaw.REJECTED in flaws else "INCONCLUSIVE"


def decisions_on(verdict_sha256: str, entries: Sequence[Entry]) -> list[Envelope]:
    """Every decision on the verdict that is on record, in order.

    Raises:
        TamperedError: an entry holds no decision, or one that was signed after the entry's time.
    """
    found = []
    for entry in entries:
        if entry.kind not in ("approval", "override"):
            continue
        if entry.body.get("verdict_sha256") != verdict_sha256:
            continue
        envelope = parse_envelope(entry.body.get("envelope") or {})
        approval, _ = read_statement(envelope, Approval)
        if parse_utc(approval.at) > entry.time:
            raise TamperedError(
                f"line {entry.sequence + 1} of the ledger, of {entry.at}, holds a decision that "
                f"was signed later, at {approval.at}"
            )
        found.append(envelope)
    return found


def _examine(
    envelope: Envelope,
    verdict_sha256: str,
    signers: Signers,
    now: datetime,
    proposers: Collection[str],
) -> Signer | Finding:
    """Who approved, or why this is no approval of the verdict."""
    unknown = [s.keyid for s in envelope.signatures if signers.get(s.keyid) is None]
    if unknown:
        return Finding(Flaw.UNKNOWN_KEY, f"signed by key {unknown[0]}, which nobody listed holds")
    try:
        approval, _ = read_statement(envelope, Approval)
        signer, *others = verify_envelope(envelope, signers, at=None)
    except TamperedError as error:
        return Finding(Flaw.TAMPERED, str(error))
    if others:
        return Finding(Flaw.TAMPERED, "an approval has one signature; sign one each")
    return _flaw(approval, signer, verdict_sha256, now, proposers) or signer


def _flaw(
    approval: Approval,
    signer: Signer,
    verdict_sha256: str,
    now: datetime,
    proposers: Collection[str],
) -> Finding | None:
    who = f"{signer.name} as {approval.role}"
    signed, expires = parse_utc(approval.at), parse_utc(approval.expires)
    problems = [
        (
            approval.verdict_sha256 != verdict_sha256,
            Flaw.REPLAYED,
            f"{who}: signed for another verdict, {approval.verdict_sha256[:12]}",
        ),
        (
            not (signer.valid_at(signed) and signer.valid_at(now)),
            Flaw.KEY_NOT_VALID,
            f"{who}: key {signer.key_id} is not valid at {approval.at} and {utc_text(now)}",
        ),
        (signed > now, Flaw.POST_DATED, f"{who}: signed at {approval.at}, which is yet to come"),
        (now >= expires, Flaw.EXPIRED, f"{who}: expired on {approval.expires}"),
        (
            signer.role != approval.role,
            Flaw.WRONG_ROLE,
            f"{who}: the signers file lists that key as {signer.role}",
        ),
        (
            approval.decision == "override",
            Flaw.OVERRIDDEN,
            f"{who} overrode the verdict: {approval.reason}",
        ),
        (
            approval.decision == "reject",
            Flaw.REJECTED,
            f"{who} rejected the verdict: {approval.reason}",
        ),
        (
            signer.name in proposers,
            Flaw.PROPOSER,
            f"{who}: proposed the change and cannot approve it",
        ),
    ]
    return next((Finding(flaw, message) for holds, flaw, message in problems if holds), None)
