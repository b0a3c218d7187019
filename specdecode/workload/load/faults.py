"""Why a request failed, as one word that can be counted. A request that failed has exactly one."""

from __future__ import annotations

import ssl
from typing import Final

import httpx

REFUSED: Final = "refused"
DISCONNECTED: Final = "disconnected"
CONNECT_TIMEOUT: Final = "connect-timeout"
IDLE_TIMEOUT: Final = "idle-timeout"
DEADLINE: Final = "deadline"
TOO_MANY: Final = "http-429"
STREAM_ERROR: Final = "stream-error"
TRUNCATED: Final = "truncated"
NO_DONE: Final = "no-done"
NOT_A_STREAM: Final = "not-a-stream"
MALFORMED: Final = "malformed"
EMPTY: Final = "empty"
INTERRUPTED: Final = "interrupted"
CLIENT_KILLED: Final = "client-killed"
CLIENT_ERROR: Final = "client-error"
CANCELLED: Final = "cancelled"

CLASSES: Final[dict[str, str]] = {
    REFUSED: "no connection: nothing listens there, or the name leads nowhere",
    DISCONNECTED: "the server closed or reset the connection before the reply was whole",
    CONNECT_TIMEOUT: "no connection within --connect-timeout",
    IDLE_TIMEOUT: "not one byte for --idle-timeout",
    DEADLINE: "not finished by --deadline",
    TOO_MANY: "HTTP 429: the server refused the load",
    "http-4xx": "another HTTP 4xx: the request is at fault",
    "http-5xx": "HTTP 5xx: the server failed",
    "http-other": "an HTTP status that is neither success nor error",
    STREAM_ERROR: "HTTP 200, then an error inside the stream",
    TRUNCATED: "the stream ended inside an event",
    NO_DONE: "the stream ended without [DONE]",
    NOT_A_STREAM: "HTTP 200, but not an event stream",
    MALFORMED: "an event that is not the JSON of this API",
    EMPTY: "a whole stream with no output and no reason for its end",
    INTERRUPTED: "cut off by the load run itself, which ended early",
    CLIENT_KILLED: "the load client ended before the reply did",
    CLIENT_ERROR: "the load client itself failed",
    CANCELLED: "closed by the client on purpose; counted apart, not as a failure",
}
"""Class to meaning. docs/load.md lists the same; a test compares the two."""

CONNECTION: Final = frozenset({REFUSED, DISCONNECTED, CONNECT_TIMEOUT})
"""Classes that mean the server is not there."""


class Fault(Exception):  # noqa: N818 - becomes a row, never reaches a caller
    """A request failed.

    Args:
        kind: one of `CLASSES`.
        detail: what happened, for people.
        status: HTTP status, if there was one.
        retry_after: the server's Retry-After header, verbatim.
    """

    def __init__(
        self, kind: str, detail: str, *, status: int | None = None, retry_after: str | None = None
    ) -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail
        self.status, self.retry_after = status, retry_after


def class_of_status(status: int) -> str:
    """Class of an HTTP status that is not 2xx."""
    if status == 429:
        return TOO_MANY
    if 400 <= status < 600:
        return f"http-{status // 100}xx"
    return "http-other"


def from_httpx(error: httpx.HTTPError) -> Fault:
    """The fault that an error of the HTTP library means."""
    detail = f"{type(error).__name__}: {error}".rstrip(": ")
    kind = CLIENT_ERROR
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        kind = CONNECT_TIMEOUT
    elif isinstance(error, httpx.TimeoutException):
        kind = IDLE_TIMEOUT
    elif isinstance(error, httpx.ConnectError):
        kind = CLIENT_ERROR if isinstance(error.__cause__, ssl.SSLError) else REFUSED
        if "Too many open files" in detail:
            kind = CLIENT_ERROR
    elif isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        kind = DISCONNECTED
    return Fault(kind, detail)
