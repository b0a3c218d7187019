"""Routers whose servers answer by a script, and requests that are written by hand."""

from __future__ import annotations

import contextlib

from tests.rollout.routers import CHAT_PATH, routing
from tests.rollout.scripts import routes
from tests.wire.server import WireServer

MODES = ("off", "shadow", "canary", "full")
STREAMED = {"messages": [], "stream": True, "stream_options": {"include_usage": True}}
UNCOUNTED = {"messages": [], "stream": True}
DEAD = "http://127.0.0.1:9"


@contextlib.contextmanager
def both(script, folder, mode="off", share=None, **settings):
    """A router in front of two servers that behave alike."""
    with (
        WireServer(routes(script)) as baseline,
        WireServer(routes(script)) as candidate,
        routing(baseline.url, candidate.url, folder, mode, share, **settings) as router,
    ):
        router.baseline, router.candidate = baseline, candidate
        yield router


def raw_body(router, body, path=CHAT_PATH, headers=()):
    """The bytes of a reply's body, decoded by nobody but for the chunks of HTTP."""
    with router.client.stream("POST", path, content=body, headers=dict(headers)) as response:
        return response, b"".join(response.iter_raw())
