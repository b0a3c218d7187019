"""A client's request, read once, and what the router makes of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from specdecode.rollout.assignment import Assignment, Subject, prompt_id_of
from specdecode.rollout.errors import RouterError
from specdecode.rollout.rows import asked_of, unjudged
from specdecode.rollout.state import RolloutState

_ID_BYTES: Final = 12


@dataclass(frozen=True)
class Call:
    """What goes to a server.

    Attributes:
        request: of the client.
        body: its body, as it came.
        request_id: the router's own, told to the client.
    """

    request: web.Request
    body: bytes = field(repr=False)
    request_id: str

    @property
    def path(self) -> str:
        """Path and query as the client wrote them."""
        return self.request.raw_path


@dataclass(frozen=True)
class Ask:
    """A request under judgement.

    Attributes:
        call: what goes to a server.
        body: its JSON.
        state: in force when it came; whatever comes of it is judged under this one.
        subject: whom it is from.
        streaming: whether the reply is to be an event stream.
        order: place in the order of all requests, also across restarts.
        started_at: when it came.
    """

    call: Call
    body: Mapping[str, Any] = field(repr=False)
    state: RolloutState
    subject: Subject
    streaming: bool
    order: int
    started_at: datetime

    def asked(self, arm: str) -> dict[str, Any]:
        """Fields of the row of an arm that are known before its reply."""
        headers = self.call.request.headers
        return asked_of(
            self.body,
            headers,
            prompt_id=prompt_id_of(headers, self.subject, self.call.request_id),
            arm=arm,
            state=self.state,
            order_index=self.order,
            started_at=self.started_at,
        )


class Asks:
    """Reads requests.

    Args:
        assignment: tells whom they are from.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        # Microseconds since 1970 at the start, then one by one: it rises across restarts as well.
        self._order = itertools.count(time.time_ns() // 1000)

    def judged(self, call: Call, state: RolloutState) -> Ask | None:
        """The request as one under judgement; None if it cannot become a row (see `unjudged`).

        Args:
            call: the request.
            state: in force.
        """
        try:
            body = json.loads(call.body)
        except (ValueError, RecursionError):
            return None
        if unjudged(body) is not None:
            return None
        return Ask(
            call=call,
            body=body,
            state=state,
            subject=self._assignment.subject(call.request.headers, body),
            streaming=body.get("stream") is True,
            order=next(self._order),
            started_at=datetime.now(UTC),
        )


async def read_call(request: web.Request, most: int, stall_s: float) -> Call:
    """A request with its whole body.

    Raises:
        RouterError: the body is too long, or does not come.
        ConnectionError: the client left while sending it.
    """
    declared = request.content_length
    if declared is not None and declared > most:
        raise _too_long(most)
    body = bytearray()
    while True:
        try:
            async with asyncio.timeout(stall_s):
                piece = await request.content.readany()
        except TimeoutError as error:
            raise RouterError(408, f"nothing of the body came for {stall_s:g} s") from error
        except web.RequestPayloadError as error:
            raise ConnectionResetError("the client left in the middle of its body") from error
        if not piece:
            return Call(request, bytes(body), new_id())
        body += piece
        if len(body) > most:
            raise _too_long(most)


def new_id() -> str:
    """An id that no other request has."""
    return secrets.token_hex(_ID_BYTES)


def _too_long(most: int) -> RouterError:
    return RouterError(413, f"the body is longer than {most} bytes, this router's limit")
