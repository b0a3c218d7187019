"""Errors as OpenAI's API shapes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from specdecode.decoding.memory import is_out_of_memory, release
from specdecode.errors import NumericalError

log = logging.getLogger("specdecode.serving")


class ApiError(Exception):
    """What a client is told instead of a reply, or in the middle of one.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        kind: OpenAI's `type`.
        param: the request's field at fault.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON document."""
        # It may quote what a client sent, such as half a surrogate pair, which no answer can carry.
        error = {
            "message": str(self).encode(errors="replace").decode(),
            "type": self.kind,
            "param": self.param,
            "code": self.status,
        }
        return {"error": error}


def queue_is_full(waiting: int, retry_after_s: int) -> ApiError:
    """The error of a request that nobody has room for."""
    return ApiError(
        429,
        f"{waiting} replies are waiting already; try again in {retry_after_s} s",
        "rate_limit_error",
        headers={"Retry-After": str(retry_after_s)},
    )


def too_late(seconds: float) -> ApiError:
    """The error of a request whose deadline has passed. Trying again would not help."""
    return ApiError(
        504,
        f"the reply was not complete within {seconds:g} s, the server's deadline; "
        "ask for fewer tokens",
        "timeout_error",
        headers={"x-should-retry": "false"},
    )


def shutting_down() -> ApiError:
    """The error of a request that comes, or is cut off, while the server stops."""
    return ApiError(
        503, "the server is shutting down", "server_error", headers={"Retry-After": "5"}
    )


def explained(error: Exception, retry_after_s: int) -> ApiError:
    """What clients are told of an error in decoding."""
    if is_out_of_memory(error):
        release()
        return ApiError(
            503,
            "not enough memory for this request beside the others; try again, or ask for less",
            "server_error",
            headers={"Retry-After": str(retry_after_s)},
        )
    if isinstance(error, NumericalError):
        return ApiError(500, str(error), "server_error")
    log.error("a request failed", exc_info=error)
    return ApiError(500, "decoding failed; the server's log says why", "server_error")
