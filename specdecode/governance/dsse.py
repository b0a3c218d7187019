"""DSSE envelopes: a payload, its type, and signatures over both.

The protocol is https://github.com/secure-systems-lab/dsse (v1.0.2), narrowed where it leaves a
choice: one payload type, one spelling of every byte, and every signature must count.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import canonical_bytes, parse_canonical, sha256_hex
from specdecode.governance.signers import Signer, Signers
from specdecode.governance.signing import SigningKey, decode_base64, encode_base64, verify
from specdecode.governance.strict import Strict
from specdecode.governance.timestamps import utc_text

PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding: what is really signed (DSSE protocol, "PAE")."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _base64(text: str) -> str:
    decode_base64(text)
    return text


Base64 = Annotated[str, AfterValidator(_base64)]


class Signature(Strict):
    """One signature and the key it names."""

    keyid: str
    sig: Base64


class Envelope(Strict):
    """A signed payload. Nothing in it is to be believed before `verify_envelope`."""

    payload: Base64
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    signatures: list[Signature] = Field(min_length=1)

    @property
    def body(self) -> bytes:
        """The payload's bytes, unverified."""
        return decode_base64(self.payload)

    @property
    def sha256(self) -> str:
        """Digest of the whole envelope."""
        return sha256_hex(canonical_bytes(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """The envelope as a JSON document."""
        return self.model_dump(mode="json", by_alias=True)

    def to_bytes(self) -> bytes:
        """The envelope as a file: canonical JSON and a newline."""
        return canonical_bytes(self.to_json()) + b"\n"


def sign_payload(payload: bytes, *keys: SigningKey) -> Envelope:
    """An envelope over `payload`, signed by each of `keys`."""
    signed = pae(PAYLOAD_TYPE, payload)
    return Envelope.model_validate(
        {
            "payload": encode_base64(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [
                {"keyid": key.key_id, "sig": encode_base64(key.sign(signed))} for key in keys
            ],
        }
    )


def parse_envelope(source: bytes | Mapping[str, Any]) -> Envelope:
    """An envelope from its file's bytes or its document; its signatures are not checked yet.

    Raises:
        TamperedError: no envelope, or bytes other than `Envelope.to_bytes` writes.
    """
    try:
        if isinstance(source, bytes):
            source = _parse_file(source)
        return Envelope.model_validate(source)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise TamperedError(f"not a signed envelope: {field}: {first['msg']}") from error
    except ConfigError as error:
        raise TamperedError(f"not a signed envelope: {error}") from error


def _parse_file(content: bytes) -> Any:
    if not content.endswith(b"\n"):
        raise ConfigError("the last byte is missing or another")
    return parse_canonical(content[:-1])


def verify_envelope(envelope: Envelope, signers: Signers, *, at: datetime | None) -> list[Signer]:
    """Who signed the envelope.

    DSSE lets a verifier skip signatures that it cannot check. This one does not: an unknown key or
    a wrong signature beside a good one is a question, not an answer.

    Args:
        envelope: to be checked.
        signers: whose signatures count.
        at: when it was signed; keys must have been valid then. None leaves that to the caller.

    Returns:
        The signers, in the order of the signatures.

    Raises:
        TamperedError: a signature of an unknown or not valid key, of the same key twice, or one
            that does not fit the payload.
    """
    signed = pae(envelope.payload_type, envelope.body)
    found: list[Signer] = []
    for signature in envelope.signatures:
        signer = signers.get(signature.keyid)
        if signer is None:
            raise TamperedError(f"signed by key {signature.keyid}, which no signers file lists")
        if not verify(signer.raw_key, decode_base64(signature.sig), signed):
            raise TamperedError(f"the signature of {signer.name} does not fit what was signed")
        if at is not None and not signer.valid_at(at):
            raise TamperedError(
                f"key {signer.key_id} of {signer.name} was not valid at {utc_text(at)}"
            )
        if signer in found:
            raise TamperedError(f"signed twice with key {signer.key_id} of {signer.name}")
        found.append(signer)
    return found
