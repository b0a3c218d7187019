"""The candidate of a soak: the server of the latency bench, which fails a share of requests.

    python -m pipelines.router_soak.backend --port 9001 --faulty 0.02

Faults take turns: HTTP 500, for which the router asks the baseline, and a stream that breaks off
after its first event, which users see.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from pipelines.route_bench.upstream import make_app

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CHAT = "/v1/chat/completions"
_BEGUN = b'data: {"choices": [{"index": 0, "delta": {"content": "word "}}]}\n\n'


def faulty_app(app: web.Application, share: float, seed: int) -> web.Application:
    """Make an application that has not been started fail.

    Args:
        app: answers what does not fail.
        share: of chats that fail, from 0 to 1.
        seed: of their choice.

    Returns:
        The same application.
    """
    draw = random.Random(seed)  # noqa: S311 - a choice that can be repeated
    failures = 0

    @web.middleware
    async def failing(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal failures
        if request.path != _CHAT or draw.random() >= share:
            return await handler(request)
        failures += 1
        await request.read()
        if failures % 2:
            return web.json_response({"error": {"message": "planted on purpose"}}, status=500)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        await reply.write(_BEGUN)
        if request.transport is not None:
            request.transport.close()
        return reply

    app.middlewares.append(failing)
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Serve on loopback until a signal comes."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.router_soak.backend")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--faulty", type=float, required=True, help="share of chats that fail")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay-ms", type=float, default=5.0)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--gap-ms", type=float, default=2.0)
    options = parser.parse_args(argv)
    app = make_app(options.delay_ms / 1000, options.chunks, options.gap_ms / 1000)
    web.run_app(
        faulty_app(app, options.faulty, options.seed),
        host="127.0.0.1",
        port=options.port,
        access_log=None,
        print=None,
    )


if __name__ == "__main__":
    main()
