"""Deviations from a sealed plan: signed, on record, and what they make of the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, parse_envelope, sign_payload, verify_envelope
from specdecode.governance.ledger import Ledger
from specdecode.governance.signers import Signer, Signers
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import Deviation, read_statement, write_statement
from specdecode.governance.timestamps import parse_utc

CONFIRMATION_SEEN = ("partial", "full")


@dataclass(frozen=True)
class Amendment:
    """A deviation on record.

    Attributes:
        deviation: what it says; not to be believed before `read_amendments` has checked it.
        envelope: what was signed.
        entry: its line in the ledger, which tells the order whatever time it names.
    """

    deviation: Deviation
    envelope: Envelope
    entry: Entry


def amend(
    deviation: Deviation, signer: SigningKey, ledger: Ledger, contingencies: Collection[str]
) -> Envelope:
    """Sign a deviation and put it on record.

    Args:
        deviation: its `when` is the time of the line.
        signer: who deviates.
        ledger: where it goes, as kind "amendment" with body {"plan_sha256", "deviation_sha256",
            "envelope"}.
        contingencies: names of those the plan foresaw.

    Raises:
        ConfigError: the plan has no seal in this ledger, or no such contingency.
        TamperedError: the ledger is broken.
    """
    named = deviation.contingency
    if named is not None and named not in contingencies:
        known = ", ".join(contingencies) or "none"
        raise ConfigError(f"the plan foresees no contingency {named!r}; it has: {known}")

    def sealed(entries: Sequence[Entry]) -> None:
        if not any(e.kind == "seal" and e.mentions(deviation.plan_sha256) for e in entries):
            raise ConfigError(
                "the plan is not sealed in this ledger: before `specdecode plan seal` it can "
                "simply be changed"
            )

    envelope = sign_payload(write_statement(deviation), signer)
    body = {
        "plan_sha256": deviation.plan_sha256,
        "deviation_sha256": envelope.sha256,
        "envelope": envelope.to_json(),
    }
    ledger.append("amendment", body, at=parse_utc(deviation.when), guard=sealed)
    return envelope


def read_amendments(
    entries: Sequence[Entry], signers: Signers, plan_sha256: str
) -> list[tuple[Amendment, list[Signer]]]:
    """The deviations from a plan, and who signed each.

    Raises:
        TamperedError: one is not what its author signed, with a key that was valid then.
    """
    found = [a for a in _amendments(entries) if a.deviation.plan_sha256 == plan_sha256]
    return [(amendment, _signed_by(amendment, signers)) for amendment in found]


def exploratory(
    ledger: Ledger, contingencies: Collection[str], signers: Signers, plan_sha256: str
) -> list[str]:
    """Why the result can no longer confirm anything: [] when it still can.

    A deviation that was put on record after the confirmation set was opened, or by someone who had
    seen confirmation results, may have been chosen to suit them. Only one the plan foresaw by name
    cannot. The order is that of the ledger's lines, not of the times they name.

    Args:
        ledger: to be read.
        contingencies: names of those the plan foresaw.
        signers: whose signatures count.
        plan_sha256: of the plan.

    Raises:
        TamperedError: the ledger is broken, a line does not hold the deviation it should, or one of
            this plan is not what its author signed.
    """
    entries = ledger.entries()
    reasons = []
    for amendment, _ in read_amendments(entries, signers, plan_sha256):
        deviation, line = amendment.deviation, amendment.entry.sequence
        opened = any(e.kind == "opened" and e.mentions(plan_sha256) for e in entries[:line])
        seen = deviation.data_seen in CONFIRMATION_SEEN
        if deviation.contingency in contingencies or not (opened or seen):
            continue
        because = (
            "after the confirmation set was opened"
            if opened
            else f"by someone who had seen confirmation data ({deviation.data_seen})"
        )
        reasons.append(f"amended on {amendment.entry.at} {because}: {deviation.what}")
    return reasons


def _signed_by(amendment: Amendment, signers: Signers) -> list[Signer]:
    where, author = f"line {amendment.entry.sequence + 1} of the ledger", amendment.deviation.author
    try:
        found = verify_envelope(amendment.envelope, signers, at=amendment.entry.time)
    except TamperedError as error:
        raise TamperedError(f"{where}, an amendment: {error}") from error
    if author not in [signer.name for signer in found]:
        raise TamperedError(f"{where}: an amendment by {author}, whose signature it does not have")
    return found


def _amendments(entries: Sequence[Entry]) -> list[Amendment]:
    found = []
    for entry in entries:
        if entry.kind != "amendment":
            continue
        envelope = parse_envelope(entry.body.get("envelope") or {})
        deviation, _ = read_statement(envelope, Deviation)
        named = (entry.body.get("plan_sha256"), entry.body.get("deviation_sha256"), entry.at)
        if named != (deviation.plan_sha256, envelope.sha256, deviation.when):
            raise TamperedError(f"line {entry.sequence + 1} of the ledger is of another deviation")
        found.append(Amendment(deviation, envelope, entry))
    return found
