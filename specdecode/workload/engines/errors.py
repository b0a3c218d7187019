"""What can go wrong with a server, by class.

    EngineError
    └── ServerError                a server did not answer as it should; names the address
        ├── UnreachableError       no connection: not running, wrong port, name not known
        ├── ServerTimeoutError     connected, but the answer was not complete in time
        ├── ProtocolError          an answer that is not what its address promises
        └── StatusError            an HTTP status of 300 or more; has `status`
            ├── AccessDeniedError  401, 403
            ├── NotOfferedError    404, 405, 501: this server has no such address
            └── OverloadedError    429, 503; has `retry_after_s`
    ConfigError
    └── LossyEngineError           the server is set to emit what its target would not

Nothing is tried again behind the caller's back: a retry is a decision, and it changes what was
measured.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from specdecode.errors import ConfigError, EngineError

_SHOWN = 200


class ServerError(EngineError):
    """A server did not answer as it should.

    Args:
        where: its address.
        problem: what happened and what to do.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


class UnreachableError(ServerError):
    """No connection could be made."""


class ServerTimeoutError(ServerError):
    """The answer was not complete within the time allowed."""


class ProtocolError(ServerError):
    """The answer is not what its address promises: not JSON, not metrics, too large, cut off."""


class StatusError(ServerError):
    """The server answered with an HTTP status that is no success.

    Args:
        where: its address.
        status: 300 to 599.
        said: the beginning of the answer's text.
        retry_after_s: seconds to wait that the server asked for, or None.
    """

    def __init__(
        self, where: str, status: int, said: str, retry_after_s: float | None = None
    ) -> None:
        self.status, self.retry_after_s = status, retry_after_s
        wait = f"; it asks to wait {retry_after_s:g} s" if retry_after_s is not None else ""
        shown = " ".join(said.split())[:_SHOWN]
        super().__init__(where, f"HTTP status {status}{wait}" + (f": {shown}" if shown else ""))


class AccessDeniedError(StatusError):
    """The server wants credentials, or others than it was given (401, 403)."""


class NotOfferedError(StatusError):
    """The server has nothing at this address (404, 405, 501)."""


class OverloadedError(StatusError):
    """The server takes no more requests for now, or is still loading (429, 503)."""


class LossyEngineError(ConfigError):
    """A server's configuration changes the distribution of its output."""


_BY_STATUS: dict[int, type[StatusError]] = {
    401: AccessDeniedError,
    403: AccessDeniedError,
    404: NotOfferedError,
    405: NotOfferedError,
    501: NotOfferedError,
    429: OverloadedError,
    503: OverloadedError,
}


def status_error(
    where: str, status: int, body: bytes, retry_after: str | None = None
) -> StatusError:
    """The error for an answer that is no success.

    Args:
        where: the address asked.
        status: its HTTP status.
        body: what came with it.
        retry_after: the header of that name.
    """
    kind = _BY_STATUS.get(status, StatusError)
    said = body[: 4 * _SHOWN].decode("utf-8", errors="replace")
    return kind(where, status, said, retry_after_s(retry_after))


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, 10.2.3): whole seconds or a date.

    Returns:
        None without a header, and for one that is neither. A date in the past is 0.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdecimal():
        seconds = float(text) if len(text) < 300 else math.inf
        return seconds if math.isfinite(seconds) else None
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
