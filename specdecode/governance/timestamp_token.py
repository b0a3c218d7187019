"""The few fields of an RFC 3161 timestamp token that say what was stamped and when.

    TimeStampResp ::= SEQUENCE { status PKIStatusInfo, timeStampToken TimeStampToken OPTIONAL }
    TimeStampToken ::= ContentInfo (CMS, RFC 5652) of SignedData over TSTInfo
    TSTInfo ::= SEQUENCE { version 1, policy, messageImprint, serialNumber, genTime, … }

Only definite-length DER is read. Nothing is verified here but the form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from specdecode.errors import ConfigError

INTEGER, OCTET_STRING, OID, GENERALIZED_TIME = 0x02, 0x04, 0x06, 0x18
SEQUENCE, EXPLICIT_0 = 0x30, 0xA0

SIGNED_DATA = bytes.fromhex("2a864886f70d010702")  # 1.2.840.113549.1.7.2
TST_INFO = bytes.fromhex("2a864886f70d0109100104")  # 1.2.840.113549.1.9.16.1.4
SHA256 = bytes.fromhex("608648016503040201")  # 2.16.840.1.101.3.4.2.1

GRANTED = (b"\0", b"\1")
"""PKIStatus granted and grantedWithMods."""


@dataclass(frozen=True)
class Token:
    """What a token says.

    Attributes:
        imprint: SHA-256 of what was stamped, 32 bytes.
        at: when.
    """

    imprint: bytes
    at: datetime


def read_token(data: bytes) -> Token:
    """Read a token, or the response of an authority that holds one.

    Raises:
        ConfigError: neither, a refusal, or a stamp over another hash than SHA-256.
    """
    parts = list(_elements(_only(data, SEQUENCE)))
    if parts and parts[0][0] == SEQUENCE:  # a response: its status comes first
        status = next(_elements(parts[0][1]), (0, b""))
        if status[0] != INTEGER or status[1] not in GRANTED or len(parts) != 2:
            raise ConfigError("the authority granted no timestamp; ask again")
        parts = list(_elements(_expect(parts[1], SEQUENCE)))
    signed_data = _explicit(parts, SIGNED_DATA, "CMS signed data")
    fields = list(_elements(_only(signed_data, SEQUENCE)))
    if len(fields) < 3:
        raise ConfigError("not a timestamp token: the signed data end too early")
    content = list(_elements(_expect(fields[2], SEQUENCE)))
    info = _only(_explicit(content, TST_INFO, "timestamp"), OCTET_STRING)
    return _token(list(_elements(_only(info, SEQUENCE))))


def _token(fields: list[tuple[int, bytes]]) -> Token:
    if len(fields) < 5:
        raise ConfigError("not a timestamp token: it ends too early")
    algorithm, imprint = _pair(_expect(fields[2], SEQUENCE))
    hashed_with = next(_elements(_expect(algorithm, SEQUENCE)), (0, b""))
    value = _expect(imprint, OCTET_STRING)
    if hashed_with != (OID, SHA256) or len(value) != 32:
        raise ConfigError("the timestamp is over another hash than SHA-256; ask with -sha256")
    text = _expect(fields[4], GENERALIZED_TIME).decode("ascii", "replace")
    form = "%Y%m%d%H%M%S.%fZ" if "." in text else "%Y%m%d%H%M%SZ"
    try:
        return Token(value, datetime.strptime(text, form).replace(tzinfo=UTC))
    except ValueError as error:
        raise ConfigError(f"not a timestamp token: {text!r} is no time in UTC") from error


def _explicit(parts: list[tuple[int, bytes]], oid: bytes, what: str) -> bytes:
    """Content of [0] after an object identifier."""
    if len(parts) != 2 or parts[0] != (OID, oid):
        raise ConfigError(f"not a timestamp token: no {what} in it")
    return _expect(parts[1], EXPLICIT_0)


def _pair(data: bytes) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    found = list(_elements(data))
    if len(found) != 2:
        raise ConfigError("not a timestamp token: its imprint is malformed")
    return found[0], found[1]


def _only(data: bytes, tag: int) -> bytes:
    found = list(_elements(data))
    if len(found) != 1:
        raise ConfigError("not a timestamp token: not one DER element")
    return _expect(found[0], tag)


def _expect(element: tuple[int, bytes], tag: int) -> bytes:
    if element[0] != tag:
        raise ConfigError(f"not a timestamp token: tag {element[0]:#x} where {tag:#x} belongs")
    return element[1]


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element that `data` is made of."""
    position = 0
    while position < len(data):
        if position + 2 > len(data):
            raise ConfigError("not a timestamp token: DER that ends in the middle")
        tag, length = data[position], data[position + 1]
        position += 2
        if length >= 0x80:
            size = length - 0x80
            length = int.from_bytes(data[position : position + size], "big")
            position += size
            if not 0 < size <= 4 or length < 0x80:
                raise ConfigError("not a timestamp token: a length that DER does not allow")
        if position + length > len(data):
            raise ConfigError("not a timestamp token: DER that ends in the middle")
        yield tag, data[position : position + length]
        position += length
