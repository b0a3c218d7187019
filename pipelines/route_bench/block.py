"""One block: requests at times that were drawn before, whatever becomes of those before them.

Each reply is timed from its sending. How late the sending itself was is kept beside it: a client
that is late has too little of the machine, and its numbers would blame the proxy for that.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import aiohttp

from pipelines.route_bench.upstream import MODEL
from specdecode.errors import EngineError
from specdecode.workload.sse import SseParser

Kind = Literal["json", "stream"]

PATH: Final = "/v1/chat/completions"
_PATIENCE_S: Final = 60.0
_KEPT_ERROR: Final = 300


@dataclass(frozen=True)
class Reply:
    """One request.

    Attributes:
        lag_s: seconds from when it was due to when it was sent.
        first_s: seconds from there to the first bytes of the body; None if none came.
        total_s: seconds to the end of the body; None unless it is whole and right.
        error: what was wrong; None for a good one.
    """

    lag_s: float
    first_s: float | None
    total_s: float | None
    error: str | None = None


@dataclass(frozen=True)
class Ask:
    """What a block sends.

    Attributes:
        url: base address.
        kind: "stream" for server-sent events.
        text: what every reply must say.
        user: prefix of the users' names; each request is another one's.
    """

    url: str
    kind: Kind
    text: str
    user: str


async def run_block(
    ask: Ask, due: Sequence[float], warm_up: int = 0, start: Callable[[], None] | None = None
) -> list[Reply]:
    """Send a block.

    Args:
        ask: what.
        due: seconds after the start, rising.
        warm_up: requests before the start, for open connections; not among the replies.
        start: called between the two.

    Raises:
        EngineError: a request of the warm-up failed: there is nothing to measure.
    """
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:
        warm = await asyncio.gather(
            *(_request(client, ask, f"warm-{n}", time.perf_counter()) for n in range(warm_up))
        )
        if bad := next((reply.error for reply in warm if reply.error), None):
            raise EngineError(f"{ask.url} does not answer as it should: {bad}")
        if start is not None:
            start()
        gc.collect()
        gc.disable()  # a collection would make the client late
        try:
            return await _on_time(client, ask, due)
        finally:
            gc.enable()


async def _on_time(client: aiohttp.ClientSession, ask: Ask, due: Sequence[float]) -> list[Reply]:
    start = time.perf_counter()
    tasks = []
    for number, at in enumerate(due):
        await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
        tasks.append(asyncio.create_task(_request(client, ask, str(number), start + at)))
    return list(await asyncio.gather(*tasks))


async def _request(client: aiohttp.ClientSession, ask: Ask, number: str, due: float) -> Reply:
    headers = {"x-specdecode-user": f"{ask.user}-{number}", "content-type": "application/json"}
    body = _body(ask.kind)
    sent = time.perf_counter()
    first: float | None = None
    data = bytearray()
    try:
        async with client.post(ask.url + PATH, data=body, headers=headers) as response:
            async for piece in response.content.iter_any():
                if first is None:
                    first = time.perf_counter() - sent
                data += piece
            total = time.perf_counter() - sent
            status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        return Reply(sent - due, first, None, f"{type(error).__name__}: {error}"[:_KEPT_ERROR])
    wrong = what_is_wrong(status, bytes(data), ask)
    return Reply(sent - due, first, total if wrong is None else None, wrong)


def _body(kind: Kind) -> bytes:
    messages = [
        {"role": "system", "content": "You answer in a few words."},
        {"role": "user", "content": "Which rule does block verification follow? " * 8},
    ]
    body: dict[str, Any] = {"model": MODEL, "messages": messages, "temperature": 0}
    body |= {"max_tokens": 64, "stream": kind == "stream"}
    return json.dumps(body).encode()


def what_is_wrong(status: int, data: bytes, ask: Ask) -> str | None:
    """None for the reply that the server gave; a proxy may write it in other words of JSON."""
    if status != 200:
        return f"HTTP {status}: {data[:_KEPT_ERROR].decode(errors='replace')}"
    try:
        said = _streamed(data) if ask.kind == "stream" else _said(json.loads(data), "message")
    except (ValueError, LookupError, TypeError) as error:
        return f"not a reply of this API: {type(error).__name__}: {error}"[:_KEPT_ERROR]
    return None if said == ask.text else f"another text than the server's: {said[:80]!r}"


def _streamed(data: bytes) -> str:
    events = SseParser().feed(data)
    if not events or not events[-1].done:
        raise ValueError("the stream does not end in [DONE]")
    return "".join(_said(json.loads(event.data), "delta") for event in events[:-1])


def _said(body: Mapping[str, Any], part: str) -> str:
    choices = body["choices"]
    return str(choices[0][part].get("content") or "") if choices else ""
