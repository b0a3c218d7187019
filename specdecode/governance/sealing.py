"""Sealing a plan: from then on it can be followed or deviated from, not changed unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.anchor import Anchor
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, sign_payload, verify_envelope
from specdecode.governance.ledger import Ledger
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan
from specdecode.governance.signers import Signer, Signers
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import (
    PLAN_SUBJECT,
    PlanSeal,
    make_predicate,
    read_statement,
    write_statement,
)
from specdecode.governance.timestamps import utc_text

CONFIRMATION_SUBJECT = "confirmation"
"""Subject under which a seal has the manifest of the confirmation set."""


@dataclass(frozen=True)
class Seal:
    """A seal whose signatures and place in the ledger were checked.

    Attributes:
        predicate: what it says.
        subjects: SHA-256 of everything sealed, by name.
        signers: who signed.
        entry: its line in the ledger; an anchor vouches for the head it made.
    """

    predicate: PlanSeal
    subjects: Mapping[str, str]
    signers: Sequence[Signer]
    entry: Entry


def seal_plan(
    plan: Plan,
    subjects: Mapping[str, str],
    signer: SigningKey,
    ledger: Ledger,
    anchor: Anchor,
    *,
    at: datetime,
    tree_clean: bool,
    confirmation_opened: bool,
    power: float | None,
    power_wanted: float | None,
    power_basis: str | None = None,
) -> Envelope:
    """Sign a plan and what it will be judged with, and put both on record.

    Args:
        plan: to be sealed.
        subjects: SHA-256 by name of everything that must not change either (`subjects`); the plan
            is added.
        signer: who seals.
        ledger: where the seal goes, as kind "seal" with body {"plan_sha256", "seal_sha256",
            "anchor", "envelope"}.
        anchor: what vouches for the head the seal makes.
        at: when.
        tree_clean: whether all code is committed.
        confirmation_opened: whether anyone has opened the confirmation set.
        power: simulated chance of GO under the effects the plan supposes, of the stage that has the
            smallest; None: not simulated.
        power_wanted: what the plan asks for; None: nothing.
        power_basis: how the power is known, such as number of runs and seed.

    Returns:
        The seal's envelope. `anchor.attest` of its entry's hash gives the anchor's evidence.

    Raises:
        ConfigError: sealing now would prove nothing; the message says what to do first.
        TamperedError: the ledger is broken.
    """
    _refuse(tree_clean, confirmation_opened, power, power_wanted, power_basis)
    anchor.ready()
    digest = plan_sha256(plan)
    predicate = make_predicate(
        PlanSeal,
        plan_sha256=digest,
        plan_name=plan.name,
        at=utc_text(at),
        tree_clean=True,
        confirmation_opened=False,
        power=power,
        power_wanted=power_wanted,
        power_basis=power_basis,
        anchor=anchor.name,
    )
    envelope = sign_payload(write_statement(predicate, subjects), signer)
    body = {
        "plan_sha256": digest,
        "seal_sha256": envelope.sha256,
        "anchor": anchor.name,
        "envelope": envelope.to_json(),
    }

    def unopened(entries: Sequence[Entry]) -> None:
        if opened := _opened(entries, digest, subjects):
            raise ConfigError(
                f"the ledger says that the confirmation set was opened on {opened[0].at}: a plan "
                "sealed now could have been written to fit. Lock and seal a new set"
            )

    entry = ledger.append("seal", body, at=at, guard=unopened)
    anchor.attest(entry.sha256)
    return envelope


def _refuse(
    tree_clean: bool,
    confirmation_opened: bool,
    power: float | None,
    power_wanted: float | None,
    power_basis: str | None,
) -> None:
    if not tree_clean:
        raise ConfigError(
            "the working tree has changes that are not committed, so nobody could get the code "
            "that is sealed: commit or remove them (`git status` lists them)"
        )
    if confirmation_opened:
        raise ConfigError(
            "the confirmation set was opened: a plan sealed now could have been written to fit. "
            "Lock and seal a new set"
        )
    if power_wanted is not None and power is None:
        raise ConfigError(
            f"the plan asks for a power of {power_wanted:g} and none was simulated: run "
            "`specdecode plan power` and pass its chance of GO"
        )
    if power_wanted is not None and power is not None and not power >= power_wanted:
        raise ConfigError(
            f"the chance of GO is {power:g} and the plan asks for {power_wanted:g}: raise the "
            "number of prompts, or ask for less before there are data"
            + (f" ({power_basis})" if power_basis else "")
        )


def read_seal(envelope: Envelope, signers: Signers, entries: Sequence[Entry]) -> Seal:
    """A seal, once it is known to be good.

    Args:
        envelope: the seal.
        signers: whose signatures count.
        entries: lines of an intact ledger.

    Raises:
        TamperedError: a signature does not hold, it is no seal, the ledger does not have it at the
            time it names, or it came after the opening of what it seals.
        EvidenceError: a later seal of the same plan has taken its place.
    """
    predicate, subjects = read_statement(envelope, PlanSeal)
    digest = envelope.sha256
    seals = [e for e in entries if e.kind == "seal"]
    entry = next((e for e in seals if e.body.get("seal_sha256") == digest), None)
    if entry is None:
        raise TamperedError(
            f"the ledger has no seal {digest[:12]}: it was cut off, or never sealed there"
        )
    if entry.body.get("envelope") != envelope.to_json() or entry.at != predicate.at:
        raise TamperedError(f"line {entry.sequence + 1} of the ledger is of another seal")
    signed_by = verify_envelope(envelope, signers, at=entry.time)
    if _opened(entries[: entry.sequence], predicate.plan_sha256, subjects):
        raise TamperedError("the confirmation set was opened before the plan was sealed")
    later = [e for e in seals[seals.index(entry) + 1 :] if e.mentions(predicate.plan_sha256)]
    if later:
        raise EvidenceError(f"the plan was sealed anew on {later[-1].at}; use that seal")
    return Seal(predicate, subjects, signed_by, entry)


def verify_seal(
    envelope: Envelope,
    plan: Plan,
    subjects: Mapping[str, str],
    signers: Signers,
    ledger: Ledger,
) -> Seal:
    """Check that a plan and everything sealed with it is still what it was.

    Args:
        envelope: the seal.
        plan: as it is now.
        subjects: SHA-256 by name of everything sealed beside the plan, as it is now.
        signers: whose signatures count.
        ledger: where it was put on record.

    Raises:
        TamperedError: anything differs; the message names it. Also as `read_seal`.
        EvidenceError: as `read_seal`.
    """
    seal = read_seal(envelope, signers, ledger.entries())
    present = {**subjects, PLAN_SUBJECT: plan_sha256(plan)}
    differing = [
        name
        for name in sorted({*seal.subjects, *present})
        if seal.subjects.get(name) != present.get(name)
    ]
    if differing:
        raise TamperedError(
            f"not what was sealed on {seal.predicate.at}: {', '.join(differing)}. Restore it, or "
            "seal anew before the confirmation set is opened"
        )
    return seal


def _opened(entries: Sequence[Entry], plan: str, subjects: Mapping[str, str]) -> list[Entry]:
    """Lines by which the plan, or the confirmation set sealed with it, was opened."""
    digests = [plan, subjects.get(CONFIRMATION_SUBJECT, plan)]
    return [e for e in entries if e.kind == "opened" and any(e.mentions(d) for d in digests)]
