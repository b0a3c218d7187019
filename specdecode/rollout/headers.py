"""Which headers a proxy passes on, in each direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

REQUEST_ID_HEADER: Final = "x-specdecode-request-id"
ARM_HEADER: Final = "x-specdecode-arm"
RETRIED_HEADER: Final = "x-specdecode-retried"

CREDENTIALS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"}
)
"""What proves who a client is."""

IDENTITIES: Final = frozenset({"x-specdecode-user", "x-specdecode-conversation"})
"""What a client tells the router alone."""

_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, section 7.6.1: of one connection, never of the message."""

_OF_THE_REQUEST: Final = frozenset({"host", "content-length", "expect"})
"""Said anew for the next server: where it is, how long the body is, and that it comes at once."""

_SERVER: Final = "specdecode"

_OURS: Final = (REQUEST_ID_HEADER, ARM_HEADER, RETRIED_HEADER)


def to_server(
    headers: CIMultiDictProxy[str],
    *,
    key: str | None,
    takes_credentials: bool,
    readable: bool,
) -> CIMultiDict[str]:
    """The headers of a request as the next server gets them.

    Args:
        headers: as they came.
        key: the server's own bearer token, sent in place of the client's credentials.
        takes_credentials: whether it gets the client's, where it has no key.
        readable: whether the router has to read the reply, so that it must not be compressed.
    """
    left_out = _named(headers) | _HOP_BY_HOP | _OF_THE_REQUEST | IDENTITIES
    if key is not None or not takes_credentials:
        left_out |= CREDENTIALS
    passed = CIMultiDict(
        [(name, _text(value)) for name, value in headers.items() if name.lower() not in left_out]
    )
    if key is not None:
        passed["Authorization"] = f"Bearer {key}"
    if readable or "Accept-Encoding" not in passed:
        passed["Accept-Encoding"] = "identity"
    return passed


def to_client(
    headers: CIMultiDictProxy[str], added: Iterable[tuple[str, str]] = ()
) -> CIMultiDict[str]:
    """The headers of a reply as the client gets them; the body's length only if it is known.

    Args:
        headers: of the server.
        added: what the router tells; a server cannot say it in its place.
    """
    left_out = _named(headers) | _HOP_BY_HOP
    left_out |= frozenset(_OURS)
    passed = CIMultiDict(
        [(name, _text(value)) for name, value in headers.items() if name.lower() not in left_out]
    )
    passed.extend(added)
    passed.setdefault("Server", _SERVER)
    return passed


def ours(request_id: str, arm: str, *, retried: bool = False) -> list[tuple[str, str]]:
    """What the router tells a client of its reply.

    Args:
        request_id: the router's own.
        arm: that answers.
        retried: whether the candidate failed before.
    """
    told = [(REQUEST_ID_HEADER, request_id), (ARM_HEADER, arm)]
    return [*told, (RETRIED_HEADER, "candidate")] if retried else told


def is_stream(headers: Mapping[str, str]) -> bool:
    """Whether a body is an event stream."""
    kind = headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _text(value: str) -> str:
    """A value that can be written: what is no UTF-8 are read as HTTP once was, as Latin-1."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
    return value


def _named(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    """What a `Connection` header declares to be of this connection."""
    given = headers.getall("Connection", ())
    return frozenset(name.strip().lower() for value in given for name in value.split(","))
