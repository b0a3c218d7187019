"""Answers of servers for tests: over the wire, or made up."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

from specdecode.workload.engines import Answer, Facts, Server, all_paths
from tests.wire.engines import Wire
from tests.wire.server import WireServer

START = datetime(2026, 1, 1, tzinfo=UTC)


def ask(url, paths=None, *, timeout_s=60.0, **options):
    """What a server answers, over HTTP."""

    async def asking():
        async with Server(url, timeout_s=timeout_s, **options) as server:
            return await server.ask(paths or all_paths())

    return asyncio.run(asking())


def served(wire: Wire, **changes):
    """What a server of this engine answers, over HTTP."""
    with WireServer(wire.routes(**changes)) as server:
        return ask(server.url)


def facts(after_s=0.0, base_url="http://made.up", failures=None, **answers):
    """Made-up answers: text or JSON by path."""
    found = {}
    for path, body in answers.items():
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        found[path] = Answer(path, 200, {}, data)
    return Facts(base_url, START + timedelta(seconds=after_s), found, failures or {})


def metrics(text, after_s=0.0, **others):
    """A reading of nothing but metrics, wherever the engine has them."""
    return facts(after_s, **{"/metrics": text, "/prometheus/metrics": text}, **others)
