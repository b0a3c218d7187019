"""Keys: golden signature, files, and base64 with one spelling only."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.signing import (
    SigningKey,
    decode_base64,
    encode_base64,
    key_id,
    verify,
)
from tests.governance.keys import ADA, GRACE

# RFC 8032, section 7.1, test 2: secret, public key, message, signature.
SECRET = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"  # noqa: S105 - printed in the RFC
PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
SIGNATURE = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_the_signature_is_that_of_the_rfc():
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET)))
    assert key.public_key.hex() == PUBLIC
    assert key.sign(b"\x72").hex() == SIGNATURE
    assert verify(key.public_key, bytes.fromhex(SIGNATURE), b"\x72")


def test_the_key_id_is_the_start_of_the_public_keys_hash():
    assert ADA.key_id == key_id(ADA.public_key) == sha256_hex(ADA.public_key)[:16]


@given(st.binary(max_size=20), st.integers(0, 63), st.integers(0, 7))
def test_a_signature_fits_its_data_and_its_key_only(data, byte, bit):
    signature = ADA.sign(data)
    flipped = bytearray(signature)
    flipped[byte] ^= 1 << bit
    assert verify(ADA.public_key, signature, data)
    assert not verify(ADA.public_key, bytes(flipped), data)
    assert not verify(ADA.public_key, signature, data + b"\0")
    assert not verify(GRACE.public_key, signature, data)


@pytest.mark.parametrize("public_key", [b"", b"\0" * 31, b"\xff" * 33])
def test_a_public_key_of_another_length_verifies_nothing(public_key):
    assert not verify(public_key, ADA.sign(b""), b"")


def test_a_saved_key_is_private_and_comes_back(tmp_path):
    path = tmp_path / "keys" / "ada.pem"
    made = SigningKey.generate()
    made.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(path).public_key == made.public_key


def test_two_keys_are_never_the_same():
    assert SigningKey.generate().key_id != SigningKey.generate().key_id


def test_a_key_is_never_overwritten(tmp_path):
    path = tmp_path / "ada.pem"
    ADA.save(path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists already, and no key is overwritten"):
        GRACE.save(path)
    assert path.read_bytes() == before


def test_a_key_that_cannot_be_made_is_no_crash(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another place"):
        ADA.save(tmp_path / "file" / "ada.pem")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    path = tmp_path / "ada.pem"
    ADA.save(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        SigningKey.load(path)


def test_a_missing_key_file_names_the_command_that_makes_one(tmp_path):
    with pytest.raises(ConfigError, match="specdecode keys new"):
        SigningKey.load(tmp_path / "none.pem")


def test_files_without_an_ed25519_key_are_refused(tmp_path):
    path = tmp_path / "other.pem"
    other = generate_private_key(SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content, problem in ((b"nonsense", "PEM"), (b"", "PEM"), (pem, "not an Ed25519 key")):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ConfigError, match=problem):
            SigningKey.load(path)


@given(st.binary())
def test_base64_comes_back(data):
    assert decode_base64(encode_base64(data)) == data


@pytest.mark.parametrize("text", ["QR==", "QQ", "Q Q=", "QQ==\n", "Q-==", "é", "QQ==QQ=="])
def test_base64_has_one_spelling(text):
    with pytest.raises(ConfigError, match="base64"):
        decode_base64(text)
