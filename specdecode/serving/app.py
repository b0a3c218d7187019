"""The server's routes."""

from __future__ import annotations

import asyncio
import hmac
import logging
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

import specdecode
from specdecode.decoding import Engine
from specdecode.serving.connection import read_body
from specdecode.serving.errors import ApiError
from specdecode.serving.exchange import Exchange
from specdecode.serving.heap import trim_on
from specdecode.serving.metrics import ServerMetrics
from specdecode.serving.scheduler import Scheduler
from specdecode.serving.settings import ServerSettings

log = logging.getLogger("specdecode.serving")

CATEGORY_HEADER = "x-specdecode-category"
OWNER = "specdecode"
_WORKERS = 2  # so that one long text does not keep all others waiting
Endpoint = Callable[[HttpRequest], Awaitable[Response]]


def make_app(
    engine: Engine,
    scheduler: Scheduler,
    settings: ServerSettings,
    metrics: ServerMetrics,
    guard_state: Callable[[], dict[str, Any]] = dict,
) -> ASGIApp:
    """The ASGI application. It starts the scheduler, and at its end lets it finish.

    Args:
        engine: for facts about the model; only the scheduler decodes.
        scheduler: not yet started.
        settings: limits.
        metrics: a watcher of the scheduler.
        guard_state: what `/server_info` says about the acceptance guard.
    """
    routes = _Routes(engine, scheduler, settings, metrics, guard_state)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        scheduler.start()
        metrics.watch(scheduler)
        trimming = asyncio.create_task(trim_on())
        yield
        trimming.cancel()
        await run_in_threadpool(scheduler.stop, finish=True)
        routes.workers.shutdown(wait=False)

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/v1/completions", routes.answering(is_chat=False), methods=["POST"]),
            Route("/v1/chat/completions", routes.answering(is_chat=True), methods=["POST"]),
            Route("/v1/models", routes.told(routes.models)),
            Route("/server_info", routes.told(routes.info)),
            Route("/version", routes.version),
            Route("/health", routes.ready),
            Route("/health/ready", routes.ready),
            Route("/health/live", routes.live),
            Route("/metrics", routes.metrics),
        ],
        exception_handlers={404: _no_route, 405: _no_route, 500: _broken},
    )


class _Routes:
    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        settings: ServerSettings,
        metrics: ServerMetrics,
        guard_state: Callable[[], dict[str, Any]],
    ) -> None:
        self._engine, self._scheduler = engine, scheduler
        self._settings, self._metrics = settings, metrics
        self._guard_state = guard_state
        self.workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="worker")

    def answering(self, *, is_chat: bool) -> Endpoint:
        """A route that decodes."""

        async def answer(http: HttpRequest) -> Response:
            try:
                self._check_key(http)
                limits = self._settings
                self._scheduler.check_room()
                body = await read_body(
                    http, limits.max_body_bytes, limits.stall_s, limits.deadline_s
                )
                category = self._metrics.category(http.headers.get(CATEGORY_HEADER))
                exchange = await Exchange.open(
                    http,
                    body,
                    self._engine,
                    scheduler=self._scheduler,
                    settings=limits,
                    workers=self.workers,
                    is_chat=is_chat,
                    category=category,
                )
                return await exchange.respond(http)
            except ApiError as error:
                self._metrics.refused(error.status)
                return JSONResponse(error.body(), error.status, error.headers)

        return answer

    def told(self, document: Callable[[], dict[str, Any]]) -> Endpoint:
        """A route that tells a fact to those who have the key."""

        async def tell(http: HttpRequest) -> Response:
            try:
                self._check_key(http)
            except ApiError as error:
                return JSONResponse(error.body(), error.status, error.headers)
            return JSONResponse(document())

        return tell

    def models(self) -> dict[str, Any]:
        """The one model."""
        model = {
            "id": self._settings.model_name,
            "object": "model",
            "created": 0,
            "owned_by": OWNER,
            "max_model_len": self._settings.context(self._engine.target.max_context),
        }
        return {"object": "list", "data": [model]}

    def info(self) -> dict[str, Any]:
        """What is in force."""
        engine, settings = self._engine, self._settings
        drafter = engine.drafter
        return {
            "engine": OWNER,
            "version": specdecode.__version__,
            "draft": None if drafter is None else drafter.name,
            "verification": None if drafter is None else engine.verification,
            "num_speculative_tokens": engine.num_speculative_tokens,
            "target": {
                "fingerprint": engine.target.fingerprint.to_json(),
                "dtype": str(engine.target.dtype).removeprefix("torch."),
                "device": str(engine.target.device),
            },
            **settings.in_force(),
            "acceptance_guard": self._guard_state(),
        }

    async def version(self, _http: HttpRequest) -> Response:
        """Who answers."""
        return JSONResponse({"version": specdecode.__version__, "engine": OWNER})

    async def ready(self, _http: HttpRequest) -> Response:
        """200 while requests are taken."""
        ok = self._scheduler.is_ready
        return JSONResponse({"status": "ok" if ok else "not ready"}, 200 if ok else 503)

    async def live(self, _http: HttpRequest) -> Response:
        """200 while the engine's thread runs."""
        ok = self._scheduler.is_alive
        status = {"status": "ok"} if ok else {"status": "dead", "why": self._scheduler.failure}
        return JSONResponse(status, 200 if ok else 503)

    async def metrics(self, _http: HttpRequest) -> Response:
        """Prometheus' text."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _check_key(self, http: HttpRequest) -> None:
        key = self._settings.api_key
        if key is None:
            return
        scheme, _, given = http.headers.get("authorization", "").partition(" ")
        # Header bytes are read as Latin-1; what a client sent as UTF-8 are these bytes again.
        matches = hmac.compare_digest(given.strip().encode("latin-1"), key.encode())
        if scheme.lower() != "bearer" or not matches:
            raise ApiError(
                401,
                "no valid API key: send 'Authorization: Bearer KEY'",
                "authentication_error",
                headers={"WWW-Authenticate": "Bearer"},
            )


async def _no_route(http: HttpRequest, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    known = "/v1/completions, /v1/chat/completions, /v1/models, /health, /metrics"
    told = ApiError(status, f"no {http.method} {http.url.path} here; there are {known}")
    return JSONResponse(told.body(), status, getattr(error, "headers", None))


async def _broken(_http: HttpRequest, error: Exception) -> Response:
    log.error("a request failed on Python %s", platform.python_version(), exc_info=error)
    told = ApiError(500, "the server failed; its log says why", "server_error")
    return JSONResponse(told.body(), 500)
