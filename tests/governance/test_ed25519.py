"""Signatures checked in plain Python, against the RFC and against an independent library."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.governance.signing import verify
from specdecode.governance.verifier.verify import L, P, decompress, signed_by

# RFC 8032, section 7.1: TEST 1, TEST 2, TEST 3 (public key, message, signature).
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
        "b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
        "1d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984d"
        "c6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()


@pytest.mark.parametrize(("public", "message", "signature"), VECTORS)
def test_the_vectors_of_the_rfc_hold(public, message, signature):
    parts = [bytes.fromhex(part) for part in (public, signature, message)]

    assert signed_by(*parts)
    assert not signed_by(parts[0], parts[1], parts[2] + b"\x00")


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100))
def test_what_the_library_signs_is_accepted(secret, message):
    key = Ed25519PrivateKey.from_private_bytes(secret)

    assert signed_by(key.public_key().public_bytes_raw(), key.sign(message), message)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 511), st.binary(max_size=40))
def test_a_flipped_bit_of_the_signature_is_refused(bit, message):
    signature = bytearray(KEY.sign(message))
    signature[bit // 8] ^= 1 << bit % 8

    assert not signed_by(PUBLIC, bytes(signature), message)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 255))
def test_a_flipped_bit_of_the_key_is_refused(bit):
    public = bytearray(PUBLIC)
    public[bit // 8] ^= 1 << bit % 8

    assert not signed_by(bytes(public), KEY.sign(b"it"), b"it")


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=64, max_size=64), st.binary(min_size=32, max_size=32))
def test_arbitrary_bytes_are_judged_as_the_library_judges_them(signature, public):
    assert signed_by(public, signature, b"it") == verify(public, signature, b"it")


def test_a_second_spelling_of_a_signature_is_refused():
    signature = KEY.sign(b"it")
    s = int.from_bytes(signature[32:], "little") + L

    assert not signed_by(PUBLIC, signature[:32] + s.to_bytes(32, "little"), b"it")


def test_a_second_spelling_of_a_point_is_refused():
    assert decompress((1).to_bytes(32, "little")) is not None
    assert decompress((P + 1).to_bytes(32, "little")) is None


@pytest.mark.parametrize("length", [0, 31, 63, 65, 96])
def test_a_signature_of_another_length_is_refused(length):
    signature = (KEY.sign(b"it") * 2)[:length]

    assert not signed_by(PUBLIC, signature, b"it")
