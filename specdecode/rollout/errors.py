"""Errors of the router itself, as OpenAI's API shapes them. Those of servers pass unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from specdecode.workload.load.faults import CONNECT_TIMEOUT, IDLE_TIMEOUT, Fault

_KINDS: Final = {401: "authentication_error", 403: "permission_error", 408: "timeout_error"}


class RouterError(Exception):
    """What a client is told instead of a reply.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        more: of the document, beside the error.
    """

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.more = status, more

    def response(self, headers: Iterable[tuple[str, str]] = ()) -> web.Response:
        """As HTTP."""
        kind = _KINDS.get(self.status)
        if kind is None:
            kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.status}
        # Quoting a client may bring in half a character, which only escapes can carry.
        text = json.dumps({"error": error, **self.more})
        response = web.Response(
            status=self.status, text=text, content_type="application/json", headers=dict(headers)
        )
        if self.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response


def no_reply(fault: Fault) -> RouterError:
    """What a client is told when the baseline does not answer."""
    if fault.kind in (CONNECT_TIMEOUT, IDLE_TIMEOUT):
        return RouterError(504, f"the server behind this router did not answer in time ({fault})")
    return RouterError(502, f"the server behind this router cannot be reached ({fault})")
