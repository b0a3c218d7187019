"""Is the seal good, and is everything it names still what it was?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import parse_canonical
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, verify_envelope
from specdecode.governance.signers import Signers

CONFIRMATION, CANDIDATE = "confirmation", "candidate"
"""Names under which a seal has the manifest of the confirmation set and, if at all, a candidate."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Digest(_Strict):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Subject(_Strict):
    name: str
    digest: _Digest


class _SealStatement(_Strict):
    """An in-toto statement (v1) that seals a plan."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1)
    predicate_type: Literal["https://specdecode.dev/plan-seal/v1"] = Field(alias="predicateType")
    predicate: dict[str, Any]


def verify_seal(
    envelope: Envelope, signers: Signers, entries: Sequence[Entry]
) -> Mapping[str, str]:
    """What a seal names, once its signatures and its place in the ledger were checked.

    Args:
        envelope: the seal.
        signers: whose signatures count.
        entries: lines of a ledger found intact; one of them must have put this seal on record,
            and its time is the one at which the keys must have been valid.

    Returns:
        SHA-256 of each sealed subject by name.

    Raises:
        TamperedError: a signature does not hold, the ledger does not have this seal, or the
            envelope holds something else than a seal.
    """
    digest = envelope.sha256
    line = next((e for e in entries if e.kind == "seal" and digest in e.body.values()), None)
    if line is None:
        raise TamperedError(
            f"the ledger has no seal {digest[:12]}: `specdecode plan seal` puts it there, and "
            "what is missing was cut off or never sealed"
        )
    verify_envelope(envelope, signers, at=line.time)
    try:
        statement = _SealStatement.model_validate(parse_canonical(envelope.body))
    except (ConfigError, ValidationError) as error:
        raise TamperedError(f"the envelope holds no seal of a plan ({error})") from error
    subjects = {subject.name: subject.digest.sha256 for subject in statement.subject}
    if len(subjects) < len(statement.subject):
        raise TamperedError("the seal names a subject twice")
    return subjects


def refuse_drift(
    sealed: Mapping[str, str],
    confirmation_sha256: str,
    candidate_sha256: str,
    present: Mapping[str, str],
) -> None:
    """Everything sealed, the candidate too, must be there unchanged.

    Args:
        sealed: digests in the seal, by name.
        confirmation_sha256: digest of the confirmation set at hand.
        candidate_sha256: digest under which the candidate was frozen.
        present: digests of what is there now, by name; more than was sealed does no harm.

    Raises:
        ConfigError: the candidate's digest is no SHA-256.
        TamperedError: a digest is another, or nothing tells it; names every such thing.
    """
    if not _SHA256.fullmatch(candidate_sha256):
        raise ConfigError(
            f"the candidate's digest is {candidate_sha256!r}, which is no SHA-256: freeze the "
            "candidate first and give the digest of what was frozen"
        )
    if sealed.get(CONFIRMATION) != confirmation_sha256:
        raise TamperedError("the seal is not about this confirmation set; open the one it names")
    wanted = {CANDIDATE: candidate_sha256, **sealed}
    if wanted[CANDIDATE] != candidate_sha256:
        raise TamperedError("the seal is about another candidate than the one given")
    now = {**present, CONFIRMATION: confirmation_sha256}
    drifted = [f"{name} (nothing tells its digest)" for name in wanted if name not in now]
    drifted += [
        f"{name} (sealed {digest[:12]}, now {now[name][:12]})"
        for name, digest in wanted.items()
        if name in now and now[name] != digest
    ]
    if drifted:
        raise TamperedError(
            f"changed since the seal: {', '.join(sorted(drifted))}. Restore what was sealed, or "
            "seal anew before the confirmation set is opened"
        )
