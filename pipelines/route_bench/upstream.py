"""An OpenAI-compatible server that answers every chat with the same text after the same time.

    python -m pipelines.route_bench.upstream --port 9001 --delay-ms 5 --chunks 20 --gap-ms 2

It does as little as a server can, so that it is no part of what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

MODEL = "bench"
WORD = "word "


def text_of(chunks: int) -> str:
    """The text of every reply."""
    return WORD * chunks


def make_app(delay_s: float, chunks: int, gap_s: float) -> web.Application:
    """The server.

    Args:
        delay_s: seconds before the first byte.
        chunks: events with text in a stream; the same text comes whole without one.
        gap_s: seconds between events.
    """
    whole = json.dumps(_whole(chunks)).encode()
    events = _events(chunks)
    served = {"json": 0, "stream": 0}

    async def chat(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        await asyncio.sleep(delay_s)
        if not asked.get("stream"):
            served["json"] += 1
            return web.Response(body=whole, content_type="application/json")
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        await reply.write(events[0])
        for event in events[1:]:
            await asyncio.sleep(gap_s)
            await reply.write(event)
        await reply.write_eof()
        served["stream"] += 1
        return reply

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def counts(_: web.Request) -> web.Response:
        return web.json_response(served)

    app = web.Application()
    app.add_routes(
        [
            web.post("/v1/chat/completions", chat),
            web.get("/v1/models", models),
            web.get("/health", health),
            web.get("/served", counts),
        ]
    )
    return app


def _whole(chunks: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": text_of(chunks)}
    return {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _usage(chunks),
    }


def _events(chunks: int) -> list[bytes]:
    """The last piece holds the reason for the end, the counts and [DONE]."""
    found = [_event({"content": WORD}) for _ in range(chunks)]
    found[-1] += _event({}, finish_reason="stop", usage=_usage(chunks)) + b"data: [DONE]\n\n"
    return found


def _event(
    delta: dict[str, str], finish_reason: str | None = None, usage: dict[str, int] | None = None
) -> bytes:
    event = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }
    if usage is not None:
        event["usage"] = usage
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _usage(chunks: int) -> dict[str, int]:
    return {"prompt_tokens": 8, "completion_tokens": chunks, "total_tokens": 8 + chunks}


def main(argv: Sequence[str] | None = None) -> None:
    """Serve on loopback until a signal comes."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.route_bench.upstream")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay-ms", type=float, default=5.0)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--gap-ms", type=float, default=2.0)
    options = parser.parse_args(argv)
    app = make_app(options.delay_ms / 1000, options.chunks, options.gap_ms / 1000)
    web.run_app(app, host="127.0.0.1", port=options.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
