"""A proxy of one page with the state of a router: copies, or a share, go to the candidate.

`python -m tests.pipelines.pass_through --port P --baseline URL --candidate URL --token T`
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count

import aiohttp
from aiohttp import web

OFF = {"version": 0, "mode": "off", "share": 0.0, "manifest_sha256": None}


def make_app(baseline: str, candidate: str, token: str) -> web.Application:
    state = dict(OFF)
    number, copies = count(), set()
    client: list[aiohttp.ClientSession] = []

    async def lifetime(_: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as opened:
            client.append(opened)
            yield
            await asyncio.gather(*copies, return_exceptions=True)

    async def copied(path: str, body: bytes) -> None:
        async with client[0].post(candidate + path, data=body) as reply:
            await reply.read()

    async def chat(request: web.Request) -> web.StreamResponse:
        body, turn = await request.read(), next(number)
        server = baseline
        if state["mode"] == "canary" and turn % 2:
            server = candidate
        if state["mode"] == "shadow":
            copies.add(task := asyncio.create_task(copied(request.path, body)))
            task.add_done_callback(copies.discard)
        async with client[0].post(server + request.path, data=body) as reply:
            passed = web.StreamResponse(
                status=reply.status, headers={"Content-Type": reply.headers["Content-Type"]}
            )
            await passed.prepare(request)
            async for piece in reply.content.iter_any():
                await passed.write(piece)
            await passed.write_eof()
            return passed

    async def read(_: web.Request) -> web.Response:
        mirror = {"waiting": 0, "in_flight": len(copies)}
        return web.json_response({"state": state, "health": {"mirror": mirror}})

    async def change(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.json_response({"error": "no"}, status=401)
        if asked["expected_version"] != state["version"]:
            return web.json_response({"error": "moved on", "state": state}, status=409)
        state.update({name: asked[name] for name in ("mode", "share", "manifest_sha256")})
        state["version"] += 1
        return web.json_response({"state": state})

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.cleanup_ctx.append(lifetime)
    app.add_routes(
        [
            web.post("/v1/chat/completions", chat),
            web.get("/rollout", read),
            web.put("/rollout", change),
            web.get("/health", health),
            web.get("/health/liveliness", health),
        ]
    )
    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    for name in ("baseline", "candidate", "token"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    app = make_app(options.baseline, options.candidate, options.token)
    web.run_app(app, host="127.0.0.1", port=options.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
