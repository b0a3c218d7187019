"""Everything of the API that is not under judgement goes to the baseline, whatever the mode."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from specdecode.rollout.ask import Call
from specdecode.rollout.errors import no_reply
from specdecode.rollout.headers import REQUEST_ID_HEADER, ours, to_client
from specdecode.rollout.relay import CutError, relay
from specdecode.rollout.upstream import Upstream
from specdecode.workload.load.faults import Fault


class Passing:
    """A plain proxy.

    Args:
        baseline: where to.
        stall_s: seconds a client may leave data unread.
    """

    def __init__(self, baseline: Upstream, stall_s: float) -> None:
        self._baseline, self._stall_s = baseline, stall_s

    async def answer(self, call: Call) -> web.StreamResponse:
        """The baseline's reply; the request's body is passed on as it comes."""
        request = call.request
        told = ours(call.request_id, self._baseline.arm)
        headers = self._baseline.headers(request.headers, readable=False)
        headers[REQUEST_ID_HEADER] = call.request_id
        body: AsyncIterator[bytes] | None = None
        if request.can_read_body:
            body = request.content.iter_any()
            if request.content_length is not None:
                headers["Content-Length"] = str(request.content_length)
        reply: aiohttp.ClientResponse | None = None
        try:
            reply = await self._baseline.ask(request.method, call.path, headers, body)
            return await relay(request, reply, to_client(reply.headers, told), None, self._stall_s)
        except Fault as fault:
            return no_reply(fault).response(told)
        except CutError as cut:
            return cut.response
        finally:
            if reply is not None:
                reply.close()
