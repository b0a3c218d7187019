"""The root fixes rows, order and number; proofs hold for what they were made for, and only that."""

from __future__ import annotations

import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance.merkle import (
    SALT_BYTES,
    leaf_hash,
    merkle_proof,
    merkle_root,
    new_salt,
    verify_proof,
)

SALT = bytes(range(SALT_BYTES))


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def leaves_of(count: int) -> list[bytes]:
    return [leaf_hash(SALT, f"row {i}".encode()) for i in range(count)]


hashes = st.binary(min_size=32, max_size=32)
leaf_lists = st.lists(hashes, min_size=1, max_size=40)


def test_five_leaves_by_hand():
    a, b, c, d, e = (sha256(b"\x00" + SALT + f"row {i}".encode()) for i in range(5))
    node = lambda left, right: sha256(b"\x01" + left + right)  # noqa: E731 - the formula
    four = node(node(a, b), node(c, d))

    assert merkle_root([a, b, c, d, e]) == node(four, e)
    assert merkle_proof([a, b, c, d, e], 2) == [d, node(a, b), e]
    assert merkle_proof([a, b, c, d, e], 4) == [four]


def test_the_tree_of_rfc_9162():
    """Known roots of its log of eight entries, which are hashed without a salt."""
    entries = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"]
    entries.append("606162636465666768696a6b6c6d6e6f")
    leaves = [sha256(b"\x00" + bytes.fromhex(entry)) for entry in entries]

    assert merkle_root(leaves[:1]).hex() == (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    )
    assert merkle_root(leaves[:3]).hex() == (
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"
    )
    assert merkle_root(leaves).hex() == (
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    )


@given(leaf_lists, st.data())
def test_every_leaf_has_a_proof_that_holds(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof = merkle_proof(leaves, index)

    assert verify_proof(merkle_root(leaves), leaves[index], index, len(leaves), proof)


@given(leaf_lists, st.data())
def test_a_proof_holds_for_no_other_leaf_root_or_path(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    root, leaf, proof = merkle_root(leaves), leaves[index], merkle_proof(leaves, index)
    other = data.draw(hashes.filter(lambda value: value not in {root, leaf, *proof}))
    count = len(leaves)

    assert not verify_proof(other, leaf, index, count, proof)
    assert not verify_proof(root, other, index, count, proof)
    assert not verify_proof(root, leaf, index, count, [*proof, other])
    assert not verify_proof(root, leaf, index, count, proof[:-1] if proof else [other])
    for i in range(len(proof)):
        assert not verify_proof(root, leaf, index, count, [*proof[:i], other, *proof[i + 1 :]])


@given(st.lists(hashes, min_size=2, max_size=40, unique=True), st.data())
def test_a_proof_holds_for_no_other_place(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    elsewhere = data.draw(st.integers(-3, len(leaves) + 3).filter(lambda i: i != index))
    proof = merkle_proof(leaves, index)

    assert not verify_proof(merkle_root(leaves), leaves[index], elsewhere, len(leaves), proof)


def test_all_lists_of_up_to_five_leaves_of_two_kinds_have_roots_of_their_own():
    """Exhaustive: also those that only differ in length or in a doubled last leaf."""
    kinds = [sha256(b"a"), sha256(b"b")]
    lists = [list(c) for n in range(1, 6) for c in itertools.product(kinds, repeat=n)]

    assert len({merkle_root(leaves) for leaves in lists}) == len(lists) == 62


@given(st.lists(st.binary(max_size=80), min_size=4, max_size=4))
def test_an_inner_node_cannot_be_shown_as_a_row(rows):
    """Second preimage: two hashes side by side, called salt and row, are no leaf of the tree."""
    leaves = [leaf_hash(SALT, row) for row in rows]
    root, beside = merkle_root(leaves), merkle_root(leaves[2:])
    forged = leaf_hash(leaves[0], leaves[1])

    assert not verify_proof(root, forged, 0, 2, [beside])
    assert verify_proof(root, merkle_root(leaves[:2]), 0, 2, [beside])  # what the prefix prevents


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_a_leaf_depends_on_salt_and_row(row, other):
    assert leaf_hash(SALT, row) == leaf_hash(SALT, row)
    assert leaf_hash(new_salt(), row) != leaf_hash(new_salt(), row)
    assert (leaf_hash(SALT, row) == leaf_hash(SALT, other)) == (row == other)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_salt_of_another_length_is_refused(size):
    """Or bytes could move from the salt into the row without changing the leaf."""
    with pytest.raises(ConfigError, match=f"32 bytes, not {size}"):
        leaf_hash(b"s" * size, b"row")


def test_what_is_no_tree_is_refused():
    with pytest.raises(ConfigError, match="at least one row"):
        merkle_root([])
    with pytest.raises(ConfigError, match="leaf 1 has 3 bytes"):
        merkle_root([*leaves_of(1), b"abc"])
    for index in (-1, 3):
        with pytest.raises(ConfigError, match=f"no leaf {index}"):
            merkle_proof(leaves_of(3), index)


@pytest.mark.parametrize(("index", "count"), [(0, 0), (-1, 3), (3, 3), (0, -1)])
def test_a_place_outside_the_tree_is_never_proved(index, count):
    leaves = leaves_of(3)

    assert not verify_proof(merkle_root(leaves), leaves[0], index, count, merkle_proof(leaves, 0))


def test_hashes_of_another_length_are_never_proved():
    (leaf,) = leaves_of(1)

    assert verify_proof(leaf, leaf, 0, 1, [])
    assert not verify_proof(leaf[:-1], leaf[:-1], 0, 1, [])
    assert not verify_proof(merkle_root([leaf, leaf]), leaf, 0, 2, [leaf + b"\x00"])
