"""Envelopes: the specification's encoding, and every changed byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import TamperedError
from specdecode.governance.dsse import (
    Envelope,
    pae,
    parse_envelope,
    sign_payload,
    verify_envelope,
)
from specdecode.governance.signing import encode_base64
from tests.governance.keys import ADA, GRACE, HOUR, NOW, STRANGER, entry, signers

PAYLOAD = b'{"bar":1}'


def test_the_encoding_is_that_of_the_specification():
    # DSSE v1.0.2, protocol.md, "Test Vectors".
    found = pae("http://example.com/HelloWorld", b"hello world")
    assert found == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(st.text(), st.text(), st.binary(), st.binary())
def test_no_two_messages_have_one_encoding(kind, other_kind, payload, other_payload):
    same = pae(kind, payload) == pae(other_kind, other_payload)
    assert same == ((kind, payload) == (other_kind, other_payload))


def test_the_signature_covers_type_and_payload():
    envelope = sign_payload(PAYLOAD, ADA)
    signed = b"DSSEv1 28 application/vnd.in-toto+json 9 " + PAYLOAD
    assert envelope.signatures[0].sig == encode_base64(ADA.sign(signed))


@given(st.binary())
def test_an_envelope_comes_back_from_its_bytes(payload):
    envelope = sign_payload(payload, ADA, GRACE)
    read = parse_envelope(envelope.to_bytes())
    assert read == envelope
    assert read.body == payload
    assert [s.name for s in verify_envelope(read, signers(), at=NOW)] == ["Ada", "Grace"]


def test_every_changed_bit_of_an_envelope_is_noticed():
    content = sign_payload(PAYLOAD, ADA).to_bytes()
    for position in range(len(content) * 8):
        changed = bytearray(content)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(TamperedError):
            verify_envelope(parse_envelope(bytes(changed)), signers(), at=NOW)


def test_every_cut_of_an_envelope_is_noticed():
    content = sign_payload(PAYLOAD, ADA).to_bytes()
    for end in range(len(content)):
        with pytest.raises(TamperedError):
            parse_envelope(content[:end])


def _with_signatures_of(envelope: Envelope, other: Envelope) -> Envelope:
    return envelope.model_copy(update={"signatures": other.signatures})


@pytest.mark.parametrize(
    ("envelope", "problem"),
    [
        (sign_payload(PAYLOAD, STRANGER), "no signers file lists"),
        (sign_payload(PAYLOAD, ADA, STRANGER), "no signers file lists"),
        (sign_payload(PAYLOAD, ADA, ADA), "signed twice"),
        (_with_signatures_of(sign_payload(b"{}", ADA), sign_payload(PAYLOAD, ADA)), "does not fit"),
    ],
)
def test_one_bad_signature_spoils_the_envelope(envelope, problem):
    with pytest.raises(TamperedError, match=problem):
        verify_envelope(envelope, signers(), at=NOW)


def test_a_key_counts_only_in_its_time():
    only = signers(entry("Ada", "owner", ADA, valid_until="2026-11-30T04:00:00Z"))
    envelope = sign_payload(PAYLOAD, ADA)
    assert verify_envelope(envelope, only, at=NOW - HOUR)
    with pytest.raises(TamperedError, match="not valid at 2026-11-30T04:00:00Z"):
        verify_envelope(envelope, only, at=NOW)


DOCUMENT = sign_payload(PAYLOAD, ADA).to_json()


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT | {"signatures": []},
        DOCUMENT | {"payloadType": "text/plain"},
        DOCUMENT | {"more": 1},
        DOCUMENT | {"payload": None},
        {name: DOCUMENT[name] for name in ("payload", "signatures")},
    ],
)
def test_documents_that_are_no_envelopes_are_refused(document):
    with pytest.raises(TamperedError, match="not a signed envelope"):
        parse_envelope(document)
