"""The seal of the plan, as the pipeline uses it: present and true, or absent and said to be.

A plan may be evaluated without a seal; then nobody vouches for its age, and the evidence says so.
A seal that is there must fit: a plan changed after it was sealed stops the evaluation before
anything is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance import Plan, plan_sha256
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, parse_envelope
from specdecode.governance.ledger import verify_ledger
from specdecode.governance.sealing import CONFIRMATION_SUBJECT, Seal, read_seal
from specdecode.governance.signers import load_signers
from specdecode.governance.statements import PLAN_SUBJECT
from specdecode.governance.subjects import TREE, file_sha256

PLANS = Path("plans")
SEAL = PLANS / "default.seal.json"
ANCHOR = PLANS / "default.anchor.json"
LEDGER = PLANS / "ledger.jsonl"
SIGNERS = PLANS / "signers.yaml"


@dataclass(frozen=True)
class SealedPlan:
    """A seal that fits the plan.

    Attributes:
        envelope: as it was signed.
        seal: what it says, checked.
        ledger: bytes of the ledger it is recorded in.
        entries: the ledger's lines.
        signers: file of those whose signatures count.
    """

    envelope: Envelope
    seal: Seal
    ledger: bytes
    entries: tuple[Entry, ...]
    signers: Path


def sealed_plan(plan: Plan, root: Path = Path(), *, files: bool = True) -> SealedPlan | None:
    """The seal of `plan`, or None where there is none.

    Code trees in a seal are left to `specdecode confirm`, which works in a repository: an
    evaluation may run in a copy, and its manifest has the code anyway.

    Args:
        plan: as it is now.
        root: folder that has `plans/`.
        files: also compare the files sealed beside the plan. Profiles other than the full one
            rewrite params.yaml, and differ by design.

    Raises:
        TamperedError: the seal does not hold: a signature, its line in the ledger, or what was
            sealed is not what is there now. The message names it.
        ConfigError: the ledger or the signers file is missing or unreadable.
    """
    path = root / SEAL
    if not path.exists():
        return None
    lines = _read(root / LEDGER)
    entries = verify_ledger(lines).intact(str(LEDGER)).entries
    signers = Path(plan.approvals.signers_file or SIGNERS)
    envelope = parse_envelope(path.read_bytes())
    seal = read_seal(envelope, load_signers(root / signers), entries)
    present = {PLAN_SUBJECT: plan_sha256(plan)}
    if files:
        others = [
            name for name in seal.subjects if name not in (PLAN_SUBJECT, CONFIRMATION_SUBJECT)
        ]
        names = [name for name in others if not name.startswith(TREE)]
        present |= {name: file_sha256(root / name) for name in names}
    if differing := [name for name, digest in present.items() if seal.subjects[name] != digest]:
        raise TamperedError(
            f"{SEAL}: not what was sealed on {seal.predicate.at}: {', '.join(differing)}. Restore "
            "it, seal anew with `specdecode plan seal`, or remove the seal to evaluate without one"
        )
    return SealedPlan(envelope, seal, lines, entries, root / signers)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: the plan has a seal, and the ledger that records it cannot be read "
            f"({error.strerror or error}); restore it"
        ) from error
