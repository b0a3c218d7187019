"""Answers of the baseline: to everything that is not under judgement, and where others fail."""

from __future__ import annotations

from time import monotonic
from typing import Final

import aiohttp
from aiohttp import web

from specdecode.rollout.ask import Call
from specdecode.rollout.errors import no_reply
from specdecode.rollout.headers import ours, to_client
from specdecode.rollout.idle import Idleness
from specdecode.rollout.leg import Leg
from specdecode.rollout.metrics import Outcome, RouterMetrics
from specdecode.rollout.relay import CutError, relay
from specdecode.rollout.sending import send
from specdecode.rollout.upstream import Upstream
from specdecode.workload.load.faults import Fault

CLIENT_LEFT: Final = "cancelled: the client left before the reply was whole"


class Baseline:
    """The server that users have today.

    Args:
        server: it.
        metrics: counts.
        idleness: counts its users.
        stall_s: seconds a client may leave data unread.
    """

    def __init__(
        self, server: Upstream, metrics: RouterMetrics, idleness: Idleness, stall_s: float
    ) -> None:
        self._server, self._metrics = server, metrics
        self._idleness, self._stall_s = idleness, stall_s

    @property
    def arm(self) -> str:
        """What rows call it."""
        return self._server.arm

    async def answer(
        self, call: Call, leg: Leg | None, *, retried: bool = False
    ) -> web.StreamResponse:
        """Its reply, or why there is none.

        Args:
            call: the request.
            leg: told of all that passes; None where nobody keeps a record.
            retried: whether the candidate failed before, which the client is told.

        Raises:
            ClientGoneError: nobody is there to read it.
        """
        with self._idleness.user():
            return await self._answer(call, leg, retried=retried)

    async def _answer(self, call: Call, leg: Leg | None, *, retried: bool) -> web.StreamResponse:
        arm, request = self._server.arm, call.request
        told = ours(call.request_id, arm, retried=retried)
        outcome: Outcome = "cancelled"
        reply: aiohttp.ClientResponse | None = None
        self._metrics.in_flight(arm, 1)
        try:
            began = monotonic()
            reply = await send(self._server, call, leg)
            self._metrics.first_byte(arm, monotonic() - began)
            if leg is not None:
                leg.headers(reply.status, reply.headers)
            passed = to_client(reply.headers, told)
            response = await relay(request, reply, passed, leg, self._stall_s)
            outcome = _outcome(reply.status)
            if leg is not None:
                leg.ended()
        except Fault as fault:
            outcome = "failed"
            if leg is not None:
                leg.ended(str(fault))
                await leg.on_record()
            return no_reply(fault).response(told)
        except CutError as cut:
            outcome = "cut"
            if leg is not None:
                leg.ended(str(cut.fault))
            return cut.response
        finally:
            if leg is not None:
                leg.ended(CLIENT_LEFT)  # unless it has ended by itself
                leg.keep()
            self._metrics.in_flight(arm, -1)
            self._metrics.answered(arm, outcome)
            if reply is not None:
                reply.close()
        return response


def _outcome(status: int) -> Outcome:
    if status < 400:
        return "ok"
    return "client_error" if status < 500 else "failed"
