"""Salted Merkle tree: one public number that commits to rows nobody may read yet.

    leaf(salt, row)   = SHA-256(0x00 || salt || row)
    node(left, right) = SHA-256(0x01 || left || right)

The tree is that of RFC 9162, 2.1: the left subtree holds the largest power of two of leaves that
is smaller than their number, and no leaf is ever doubled. Leaves and nodes start with different
bytes, so neither can be passed off as the other (second preimages), and two lists of rows with the
same root are a collision of SHA-256: the root fixes the rows, their order and their number. The
salt, secret until a row is shown and of its own for each, keeps a row from being guessed from its
leaf.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from specdecode.errors import ConfigError

SALT_BYTES = 32
"""Fixed, so that salt and row cannot be told apart in two ways."""

HASH_BYTES = 32


def new_salt() -> bytes:
    """A fresh salt from the operating system."""
    return secrets.token_bytes(SALT_BYTES)


def leaf_hash(salt: bytes, row: bytes) -> bytes:
    """Leaf of one row, given as its canonical bytes.

    Raises:
        ConfigError: the salt does not have 32 bytes.
    """
    if len(salt) != SALT_BYTES:
        raise ConfigError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}; use new_salt()")
    return hashlib.sha256(b"\x00" + salt + row).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Root over leaf hashes, in their order.

    Raises:
        ConfigError: there is no leaf, or one is not 32 bytes long.
    """
    _refuse_malformed(leaves)
    return _root(leaves)


def merkle_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Hashes beside the way from a leaf up to the root, nearest the leaf first.

    Raises:
        ConfigError: as `merkle_root`, or there is no such leaf.
    """
    _refuse_malformed(leaves)
    if not 0 <= index < len(leaves):
        raise ConfigError(f"there is no leaf {index}; they are numbered 0 to {len(leaves) - 1}")
    proof: list[bytes] = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _left_size(high - low)
        if index < middle:
            proof.append(_root(leaves[middle:high]))
            high = middle
        else:
            proof.append(_root(leaves[low:middle]))
            low = middle
    return proof[::-1]


def verify_proof(root: bytes, leaf: bytes, index: int, count: int, proof: Sequence[bytes]) -> bool:
    """Whether `leaf` is number `index` of the `count` leaves under `root`.

    `count` has to come from where the root comes from: it says which way leads up, and a proof
    alone does not establish it.
    """
    if not 0 <= index < count or any(len(part) != HASH_BYTES for part in (root, leaf, *proof)):
        return False
    sides: list[bool] = []  # from the root down: did the way turn right?
    low, high = 0, count
    while high - low > 1:
        middle = low + _left_size(high - low)
        sides.append(index >= middle)
        low, high = (middle, high) if index >= middle else (low, middle)
    if len(proof) != len(sides):
        return False
    found = leaf
    for right, beside in zip(reversed(sides), proof, strict=True):
        found = _node(beside, found) if right else _node(found, beside)
    return found == root


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _left_size(count: int) -> int:
    """Largest power of two below `count`, which is at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def _root(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    middle = _left_size(len(leaves))
    return _node(_root(leaves[:middle]), _root(leaves[middle:]))


def _refuse_malformed(leaves: Sequence[bytes]) -> None:
    if not leaves:
        raise ConfigError("a Merkle tree needs at least one row")
    for index, leaf in enumerate(leaves):
        if len(leaf) != HASH_BYTES:
            raise ConfigError(f"leaf {index} has {len(leaf)} bytes, not {HASH_BYTES}")
