"""Ed25519 keys (RFC 8032): made, kept in a file only its owner reads, and used."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from specdecode.errors import ConfigError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.durable import create_file
from specdecode.governance.private_file import read_private

KEY_MODE = 0o600


class SigningKey:
    """A private key and what follows from it.

    Args:
        key: the Ed25519 private key; `generate` and `load` make and read one.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()
        self.key_id = key_id(self.public_key)

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key from the system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path | str) -> SigningKey:
        """Read a key that `save` wrote (PEM, PKCS 8, unencrypted).

        Raises:
            ConfigError: see `read_private`, or it holds no Ed25519 key.
        """
        content = read_private(path, made_by="specdecode keys new NAME", instead="make a new one")
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigError(f"{path}: not an unencrypted PEM private key ({error})") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path}: not an Ed25519 key; `specdecode keys new NAME` makes one")
        return cls(key)

    def save(self, path: Path | str) -> None:
        """Write the key to a new file of mode 0600; folders are made.

        Raises:
            ConfigError: the file exists: an overwritten key can sign nothing any more. Or it cannot
                be written.
        """
        path = Path(path)
        content = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            create_file(path, content, mode=KEY_MODE)
        except OSError as error:
            if path.exists():
                raise ConfigError(
                    f"{path}: exists already, and no key is overwritten; `specdecode keys show` "
                    "prints its entry, --out names another place for a new one"
                ) from error
            raise ConfigError(
                f"{path}: cannot be made ({error.strerror or error}); choose another place"
            ) from error

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes; the same data always gives the same."""
        return self._key.sign(data)


def verify(public_key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether `signature` over `data` was made with the private half of `public_key`."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_id(public_key: bytes) -> str:
    """First 16 hex digits of the SHA-256 of the raw public key."""
    return sha256_hex(public_key)[:16]


def encode_base64(data: bytes) -> str:
    """Standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str) -> bytes:
    """Bytes of the one base64 text that `encode_base64` gives for them.

    Raises:
        ConfigError: anything else, also text whose unused last bits are set: two texts for the
            same bytes would let a signed file be changed without a trace.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"not base64: {error}") from error
    if encode_base64(data) != text:
        raise ConfigError("not base64 in its standard form")
    return data
