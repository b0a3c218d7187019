"""Is everything that was sealed still what it was?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.sealing import CONFIRMATION_SUBJECT

CANDIDATE_SUBJECT = "candidate"
"""Name of the candidate among the digests of what is there; a seal may have it too."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


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
    if sealed.get(CONFIRMATION_SUBJECT) != confirmation_sha256:
        raise TamperedError("the seal is not about this confirmation set; open the one it names")
    wanted = {CANDIDATE_SUBJECT: candidate_sha256, **sealed}
    if wanted[CANDIDATE_SUBJECT] != candidate_sha256:
        raise TamperedError("the seal is about another candidate than the one given")
    now = {**present, CONFIRMATION_SUBJECT: confirmation_sha256}
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
