"""The router's routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from specdecode.rollout.ask import Call, new_id, read_call
from specdecode.rollout.control import Control
from specdecode.rollout.errors import RouterError
from specdecode.rollout.gate import Document, gate, rollback
from specdecode.rollout.heads import Heads
from specdecode.rollout.metrics import RouterMetrics
from specdecode.rollout.passing import Passing
from specdecode.rollout.settings import RouterSettings
from specdecode.rollout.state import RolloutState
from specdecode.rollout.traffic import Traffic

log = logging.getLogger("specdecode.rollout")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

JUDGED: Final = ("/v1/completions", "/v1/chat/completions")
_KNOWN: Final = "/v1/…, /rollout, /gate, /gate/rollback, /health, /health/ready, /metrics"
_HOOK_BYTES: Final = 65_536
"""Most that a hook may send along; nobody reads it."""

Judge = Callable[[Path | None, RolloutState, str | None], tuple[bool, Document]]


class Routes:
    """Answers HTTP.

    Args:
        settings: limits.
        traffic: the two routes under judgement.
        passing: everything else of the API.
        control: the state.
        state: the state in force.
        metrics: counts.
        heads: told of every request.
    """

    def __init__(
        self,
        settings: RouterSettings,
        *,
        traffic: Traffic,
        passing: Passing,
        control: Control,
        state: Callable[[], RolloutState],
        metrics: RouterMetrics,
        heads: Heads,
    ) -> None:
        self._settings, self._traffic, self._passing = settings, traffic, passing
        self._control, self._state, self._metrics = control, state, metrics
        self._heads = heads
        self.stopping = False

    def app(self) -> web.Application:
        """The application."""
        app = web.Application()
        add = app.router.add_route
        for path in JUDGED:
            add("POST", path, self._safe(self._judged))
        add("*", "/v1/{rest:.*}", self._safe(self._passed))
        add("GET", "/rollout", self._safe(self._control.read))
        add("PUT", "/rollout", self._safe(self._control.write))
        for path, judge in (("/gate", gate), ("/gate/rollback", rollback)):
            for method in ("GET", "POST"):  # Argo Rollouts asks by GET, Flagger by POST
                add(method, path, self._safe(self._verdict(judge)))
        add("GET", "/health", self._safe(self._live))
        add("GET", "/health/live", self._safe(self._live))
        add("GET", "/health/ready", self._safe(self._ready))
        add("GET", "/metrics", self._safe(self._told))
        add("*", "/{rest:.*}", self._safe(_nothing))
        return app

    async def _judged(self, request: web.Request) -> web.StreamResponse:
        settings = self._settings
        call = await read_call(request, settings.max_body_bytes, settings.stall_s)
        return await self._traffic.answer(call)

    async def _passed(self, request: web.Request) -> web.StreamResponse:
        if ".." in request.path.split("/"):
            raise RouterError(404, "a path with '..' is not passed on")
        return await self._passing.answer(Call(request, b"", new_id()))

    def _verdict(self, judge: Judge) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            await read_call(request, _HOOK_BYTES, self._settings.stall_s)
            asked = request.query.get("manifest_sha256")
            yes, document = await asyncio.to_thread(
                judge, self._settings.verdict, self._state(), asked
            )
            return web.json_response(document, status=200 if yes else 409)

        return answer

    async def _live(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    async def _ready(self, _request: web.Request) -> web.StreamResponse:
        status = "stopping" if self.stopping else "ok"
        return web.json_response({"status": status}, status=503 if self.stopping else 200)

    async def _told(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=self._metrics.text(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    def _safe(self, handler: Handler) -> Handler:
        """Errors become answers that a client of the API understands."""

        async def answer(request: web.Request) -> web.StreamResponse:
            self._heads.arrived(request)
            try:
                return await handler(request)
            except RouterError as error:
                self._metrics.refused(error.status)
                response = error.response()
                if error.status in (408, 413):
                    response.force_close()  # the rest of the body is not waited for
                return response
            except ConnectionError:
                raise  # the client left; there is nobody to tell
            except Exception:
                log.exception("a request failed")
                self._metrics.refused(500)
                return RouterError(500, "the router failed; its log says why").response()

        return answer


async def _nothing(request: web.Request) -> web.StreamResponse:
    raise RouterError(404, f"no {request.method} {request.path} here; there are {_KNOWN}")
