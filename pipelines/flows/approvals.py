"""Signatures of people: gathered from where they arrive, checked, put on record in the ledger.

Prefect and folders only carry them. Whoever resumes a paused run, or drops a file, is nobody; what
counts is whose key signed this very verdict. `specdecode approve` on the verdict's file is the
usual way: it writes beside the file and into the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.amendments import exploratory
from specdecode.governance.approvals import Flaw, check_approvals, decisions_on, record_approval
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, parse_envelope
from specdecode.governance.ladder_facts import Decisions
from specdecode.governance.ledger import Ledger
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan
from specdecode.governance.sealing import read_seal
from specdecode.governance.signers import Signers
from specdecode.governance.timestamps import utc_now

SUFFIX = ".approval.json"

_NOBODYS = {Flaw.TAMPERED, Flaw.UNKNOWN_KEY, Flaw.KEY_NOT_VALID, Flaw.REPLAYED, Flaw.POST_DATED,
            Flaw.WRONG_ROLE}  # fmt: skip
"""What makes an envelope no decision of anyone on this verdict; it does not go on record."""


@dataclass(frozen=True)
class People:
    """Who may sign, and where it is put on record.

    Attributes:
        plan: says which roles must sign.
        signers: whose signatures count; None where the plan asks for none.
        ledger: where decisions are on record.
        trouble: why it is not known who may sign; None: it is.
        unsealed: go on although nobody sealed the plan; for rehearsals.
        clock: tells by when a signature must not have expired.
    """

    plan: Plan
    signers: Signers | None
    ledger: Ledger
    unsealed: bool = False
    trouble: str | None = None
    clock: Callable[[], datetime] = utc_now

    def on(self, verdict_sha256: str) -> Decisions:
        """The decisions on a verdict that are on record, and by what the ladder checks them.

        Raises:
            TamperedError: the ledger or the seal in it was changed.
        """
        entries = self.ledger.entries()
        proposers, why = self._sealed(entries)
        return Decisions(
            envelopes=tuple(decisions_on(verdict_sha256, entries)),
            signers=self.signers,
            proposers=proposers,
            exploratory=why,
        )

    def note(self, verdict: Path) -> None:
        """Put a verdict on record, once: what people sign, and that it was reached by then.

        Raises:
            TamperedError: the ledger was changed.
        """
        content = verdict.read_bytes()
        document, digest = json.loads(content), sha256_hex(content)
        if any(_is_of(entry, digest) for entry in self.ledger.entries()):
            return
        body = {name: document[name] for name in ("plan_sha256", "status", "rows_sha256")}
        self.ledger.append("verdict", body | {"verdict_sha256": digest})

    def refused(self, envelope: Envelope, verdict_sha256: str) -> str | None:
        """Why an envelope is no decision of a signer on this verdict; None: it is one."""
        if self.signers is None:
            return "the plan asks for no signature"
        findings = check_approvals(
            verdict_sha256, [envelope], self.signers, (), distinct=False, now=self.clock()
        )
        nobodys = [finding.message for finding in findings if finding.flaw in _NOBODYS]
        return nobodys[0] if nobodys else None

    def take(self, content: bytes, verdict_sha256: str) -> str | None:
        """Put a decision that arrived on record; of two the same the second changes nothing.

        Returns:
            Why it was refused; None: it is on record.

        Raises:
            TamperedError: the ledger was changed.
        """
        try:
            envelope = parse_envelope(content)
        except TamperedError as error:
            return str(error)
        if why := self.refused(envelope, verdict_sha256):
            return why
        known = decisions_on(verdict_sha256, self.ledger.entries())
        if envelope.sha256 in [one.sha256 for one in known]:
            return None
        try:
            record_approval(envelope, self.ledger)
        except ConfigError as error:
            return str(error)
        return None

    def collect(self, folders: Sequence[Path], verdict_sha256: str) -> list[str]:
        """Put on record what lies in these folders.

        Returns:
            What was refused, by file, and why. A signature of another verdict is none of that: the
            folders hold those of all steps.
        """
        refused = []
        for path in sorted(path for folder in folders for path in folder.glob(f"*{SUFFIX}")):
            why = self.take(path.read_bytes(), verdict_sha256)
            if why is not None and "signed for another verdict" not in why:
                refused.append(f"{path.name}: {why}")
        return refused

    def _sealed(self, entries: Sequence[Entry]) -> tuple[frozenset[str], tuple[str, ...]]:
        """Who sealed the plan, and why a GO under it would confirm nothing."""
        if self.trouble is not None:
            return frozenset(), (self.trouble,)
        digest = plan_sha256(self.plan)
        seals = [entry for entry in entries if entry.kind == "seal" and entry.mentions(digest)]
        if not seals or self.signers is None:
            problem = f"plan {digest[:12]} is not sealed in {self.ledger.path}"
            if seals:
                problem = f"{self.ledger.path}: no signers file says whose seal counts"
            return frozenset(), () if self.unsealed else (problem,)
        envelope = parse_envelope(seals[-1].body.get("envelope") or {})
        seal = read_seal(envelope, self.signers, entries)
        names = [entry.name for entry in self.plan.contingencies]
        why = tuple(exploratory(self.ledger, names, self.signers, digest))
        return frozenset(signer.name for signer in seal.signers), why


def _is_of(entry: Entry, verdict_sha256: str) -> bool:
    return entry.kind == "verdict" and entry.body.get("verdict_sha256") == verdict_sha256
