"""Key files of a vault: each holder has one, and all of them together open it.

The key that wraps a vault's data key is derived (HKDF-SHA256, RFC 5869) from every holder's random
share, so two shares kept by two people make one of them unable to look alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from specdecode.errors import ConfigError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.durable import create_file
from specdecode.governance.private_file import read_private
from specdecode.governance.signing import decode_base64, encode_base64

SHARE_BYTES = 32
_INFO = b"specdecode.vault/1 key encryption"


def new_share(path: Path | str) -> str:
    """Write a fresh share to a new file of mode 0600.

    Returns:
        Its id, which a vault's public manifest names.

    Raises:
        ConfigError: the file exists: what it opens would be lost with it. Or it cannot be written.
    """
    path, share = Path(path), secrets.token_bytes(SHARE_BYTES)
    try:
        create_file(path, encode_base64(share).encode("ascii") + b"\n", mode=0o600)
    except FileExistsError as error:
        raise ConfigError(f"{path}: exists; move it away or choose another name") from error
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be made ({error.strerror or error}); choose another place"
        ) from error
    return share_id(share)


def read_share(path: Path | str, *, public: bool = False) -> bytes:
    """Read a share, 32 bytes.

    Args:
        path: the key file.
        public: the vault says itself that its key is no secret, so others may read the file.

    Raises:
        ConfigError: see `read_private`, or it is not a share.
    """
    content = read_private(
        path,
        made_by="specdecode vault key FILE",
        instead="lock a new vault with a new key",
        public=public,
    )
    try:
        share = decode_base64(content.decode("ascii").removesuffix("\n"))
    except (UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(
            f"{path}: not a vault key; `specdecode vault key` makes one ({error})"
        ) from error
    if len(share) != SHARE_BYTES:
        raise ConfigError(f"{path}: a vault key has {SHARE_BYTES} bytes, not {len(share)}")
    return share


def share_id(share: bytes) -> str:
    """First 16 hex digits of a SHA-256 over the share; names it without telling it."""
    return sha256_hex(b"specdecode.vault/1 key id" + share)[:16]


def key_encryption_key(shares: Sequence[bytes]) -> bytes:
    """The wrapping key (32 bytes) of all shares, in whatever order they come.

    Raises:
        ConfigError: there is no share, or one of them is given twice.
    """
    if not shares:
        raise ConfigError("no vault key was given; name every holder's key file")
    if len(set(shares)) < len(shares):
        raise ConfigError("the same vault key was given twice; each holder has one of their own")
    return HKDF(SHA256(), 32, salt=None, info=_INFO).derive(b"".join(sorted(shares)))
