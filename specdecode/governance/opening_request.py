"""What an opening is asked for, and everything that must hold before it may begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.anchor import Anchor, AnchorEvidence, NoAnchor
from specdecode.governance.chain import Entry
from specdecode.governance.drift import refuse_drift
from specdecode.governance.dsse import Envelope
from specdecode.governance.ledger import Ledger
from specdecode.governance.opened import Digests
from specdecode.governance.sealing import Seal, read_seal
from specdecode.governance.signers import Signers
from specdecode.governance.vault import Vault


@dataclass(frozen=True)
class Request:
    """What is to be opened, for what, and against what it is checked.

    Attributes:
        vault: folder of the vault.
        key_files: every holder's key file; not read before OPENED is durable.
        seal: envelope of the plan's seal; not believed before it is verified.
        signers: whose seal counts.
        ledger: the ledger that has the seal's line.
        candidate_sha256: digest of the candidate, frozen before it meets these prompts.
        present: computes, from what is there now, the SHA-256 of everything sealed, by its name in
            the seal, and of the candidate as "candidate". Called before the opening and after the
            last prompt.
        anchor: can check `evidence`.
        evidence: of the ledger's head at the seal or later; None only where the plan was sealed
            without an anchor.
    """

    vault: Path
    key_files: Sequence[Path]
    seal: Envelope
    signers: Signers
    ledger: Ledger
    candidate_sha256: str
    present: Callable[[], Mapping[str, str]]
    anchor: Anchor = field(default_factory=NoAnchor)
    evidence: AnchorEvidence | None = None


@dataclass(frozen=True)
class Checked:
    """What a good request stands for: its digests, the ledger's lines, the anchor's name."""

    digests: Digests
    entries: tuple[Entry, ...]
    anchor: str


def check_request(request: Request, vault: Vault) -> Checked:
    """Verify ledger, seal and anchor, that nothing drifted, and that the keys can be there.

    No key is read, and nothing is written.

    Raises:
        TamperedError: ledger, seal or anchor do not hold, or something sealed has another digest.
        EvidenceError: a later seal of the same plan has taken this one's place.
        ConfigError: the candidate is not frozen, or a key file or the anchor's evidence missing.
    """
    entries = request.ledger.entries()
    seal = read_seal(request.seal, request.signers, entries)
    anchor = _anchored(request, seal, entries)
    manifest, candidate = vault.manifest, request.candidate_sha256
    refuse_drift(seal.subjects, manifest.sha256, candidate, request.present())
    _refuse_missing_keys(request.key_files, vault)
    digests = Digests(
        merkle_root=manifest.merkle_root,
        seal_sha256=request.seal.sha256,
        candidate_sha256=candidate,
        subjects=dict(seal.subjects),
    )
    return Checked(digests, entries, anchor)


def _anchored(request: Request, seal: Seal, entries: Sequence[Entry]) -> str:
    """The name of the anchor, once it was found to vouch for a ledger that has the seal.

    Raises:
        ConfigError: the plan was sealed with an anchor, and its evidence is not given.
        TamperedError: the evidence does not hold, or the ledger lacks the lines it vouches for.
    """
    evidence, sealed_with = request.evidence, seal.predicate.anchor
    if evidence is None or (evidence.name == "none" and sealed_with != "none"):
        if sealed_with == "none":
            return "none"
        raise ConfigError(
            f"the plan was sealed with the anchor {sealed_with}: give its evidence, which "
            "`specdecode plan seal` wrote beside the plan"
        )
    request.anchor.verify(evidence)
    heads = [entry.sha256 for entry in entries]
    if evidence.head not in heads[seal.entry.sequence :]:
        raise TamperedError(
            f"{request.ledger.path}: no line from the seal on has the anchored head "
            f"{evidence.head[:12]}: lines were cut off or exchanged, or it was anchored before"
        )
    return evidence.name


def _refuse_missing_keys(key_files: Sequence[Path], vault: Vault) -> None:
    """Told before the set is consumed, and without reading a key."""
    for path in key_files:
        if not path.is_file():
            raise ConfigError(f"{path}: there is no such key file")
    wanted = vault.manifest.cipher.key_ids
    if len(key_files) != len(wanted):
        raise ConfigError(
            f"the vault opens with {len(wanted)} keys together ({', '.join(wanted)}); "
            f"{len(key_files)} were given"
        )
