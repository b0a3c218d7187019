"""Sends a request under judgement, and asks for the counts that its row needs."""

from __future__ import annotations

from typing import Final

import aiohttp

from specdecode.rollout.ask import Call
from specdecode.rollout.headers import REQUEST_ID_HEADER
from specdecode.rollout.leg import Leg
from specdecode.rollout.upstream import Upstream

_MAY_MIND: Final = (400, 422)


async def send(server: Upstream, call: Call, leg: Leg | None) -> aiohttp.ClientResponse:
    """The reply, once its headers are there.

    A server that knows no token counts in streams may refuse a request for them. So a request that
    is refused is sent again as it came; if that helps, this server is not asked for counts again.

    Args:
        server: to ask.
        call: the request.
        leg: its row to come; None where nobody keeps a record, and nothing is asked for.

    Raises:
        Fault: there was no reply.
    """
    request = call.request
    headers = server.headers(request.headers, readable=leg is not None)
    headers[REQUEST_ID_HEADER] = call.request_id
    sent = None if leg is None else leg.sent
    if leg is not None and leg.counted is not None and server.counts:
        reply = await server.ask(request.method, call.path, headers, leg.counted, sent)
        if reply.status not in _MAY_MIND:
            return reply
        reply.close()
        again = await server.ask(request.method, call.path, headers, call.body)
        server.counts = again.status // 100 != 2
        leg.counted = None
        return again
    if leg is not None:
        leg.counted = None
    return await server.ask(request.method, call.path, headers, call.body, sent)
