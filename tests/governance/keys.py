"""Keys that are the same in every test run, and the people who hold them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from specdecode.governance.signers import Signers, parse_signers
from specdecode.governance.signing import SigningKey, encode_base64

NOW = datetime(2026, 11, 30, 4, tzinfo=UTC)
HOUR = timedelta(hours=1)


def key(seed: int) -> SigningKey:
    """The key whose 32 secret bytes are all `seed`."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


ADA, GRACE, LINUS, STRANGER = key(1), key(2), key(3), key(9)
ADA_REVIEWS = key(4)
"""A second key of Ada's."""


def entry(name: str, role: str, of: SigningKey, **fields: str) -> dict[str, str]:
    """An entry of a signers file."""
    return {"name": name, "role": role, "public_key": encode_base64(of.public_key), **fields}


ENTRIES = [
    entry("Ada", "owner", ADA),
    entry("Grace", "reviewer", GRACE),
    entry("Linus", "operator", LINUS),
    entry("Ada", "reviewer", ADA_REVIEWS),
]


def signers(*entries: dict[str, str]) -> Signers:
    """The signers given, or everybody."""
    return parse_signers(list(entries) or ENTRIES)
