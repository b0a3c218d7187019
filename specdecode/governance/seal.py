"""How a manifest is sealed: what its one number is the hash of, and where it names the plan."""

from __future__ import annotations

import hashlib
import json

PLAN_ENTRY = "plan_sha256"
"""Entry of a manifest that holds `plan_sha256` of the plan its rows are measured for."""


def fits(entries: object, digest: object) -> bool:
    """Whether entries hash to the seal they came with; what cannot be hashed does not."""
    try:
        return sealed_sha256(entries) == digest
    except (TypeError, ValueError, RecursionError):
        return False


def sealed_sha256(entries: object) -> str:
    """SHA-256 over a manifest's entries: of their JSON with sorted keys and no spaces."""
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
