"""Put the parts of a server together, and run it until it is told to stop."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from specdecode.decoding import Engine
from specdecode.errors import ConfigError
from specdecode.serving.app import make_app
from specdecode.serving.guard import AcceptanceGuard
from specdecode.serving.heads import http_protocol
from specdecode.serving.metrics import ServerMetrics
from specdecode.serving.room import check_slots
from specdecode.serving.scheduler import Scheduler
from specdecode.serving.settings import ServerSettings

log = logging.getLogger("specdecode.serving")

_CANNOT_START = 3  # uvicorn's exit code for it


@dataclass(frozen=True)
class Service:
    """A server's parts.

    Attributes:
        app: answers HTTP.
        scheduler: decodes.
        metrics: counts.
    """

    app: ASGIApp
    scheduler: Scheduler
    metrics: ServerMetrics


def make_service(engine: Engine, settings: ServerSettings) -> Service:
    """Everything behind the socket; the app starts the scheduler.

    Raises:
        ConfigError: the engine's rule cannot serve, or it cannot draft what the settings ask for,
            or memory has no room for so many slots.
    """
    _check_lengths(engine, settings)
    check_slots(engine, settings.slots, settings.context(engine.target.max_context))
    metrics = ServerMetrics(
        settings.model_name,
        engine.num_speculative_tokens,
        settings.slots,
        settings.context(engine.target.max_context),
    )
    guard = None
    # An adaptive draft length weighs the costs itself.
    if settings.guard and engine.drafter is not None and not engine.is_adaptive:
        guard = AcceptanceGuard(engine.num_speculative_tokens, metrics.switched)
    scheduler = Scheduler(
        engine,
        slots=settings.slots,
        queue=settings.queue,
        prefill_chunk=settings.prefill_chunk,
        deadline_s=settings.deadline_s,
        watchers=[metrics],
        guard=guard,
        draft_lengths=settings.draft_lengths,
    )
    state = dict if guard is None else guard.state
    app = make_app(engine, scheduler, settings, metrics, state)
    return Service(app, scheduler, metrics)


def _check_lengths(engine: Engine, settings: ServerSettings) -> None:
    lengths = settings.draft_lengths
    if lengths is None:
        return
    if engine.is_adaptive:
        raise ConfigError(
            "an adaptive draft length weighs the load itself: give draft lengths by load, or "
            "'adaptive', and not both"
        )
    if engine.drafter is None and lengths.most:
        raise ConfigError(
            f"the draft lengths go up to {lengths.most}, but there is no draft: name one"
        )
    if lengths.most > engine.num_speculative_tokens:
        raise ConfigError(
            f"the draft lengths go up to {lengths.most}, but the engine drafts "
            f"{engine.num_speculative_tokens} at most: raise num_speculative_tokens"
        )


class _Server(uvicorn.Server):
    """Tells once it listens, and ends in good order when a signal comes."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str, int], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:  # somebody bound the same port and was the first to listen
            log.critical("%s", error.strerror or error)
            await self.lifespan.shutdown()
            raise SystemExit(_CANNOT_START) from error
        for server in self.servers:
            for listening in server.sockets:
                host, port, *_ = listening.getsockname()
                self._ready(host, port)
                return

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets it finish; the second one does not. Neither is an error."""
        del frame
        log.info(
            "%s: %s", signal.Signals(sig).name, "stopping" if self.should_exit else "finishing"
        )
        self.force_exit = self.should_exit
        self.should_exit = True


def make_server(
    service: Service, settings: ServerSettings, ready: Callable[[str, int], None]
) -> uvicorn.Server:
    """The HTTP server. A signal stops it: it takes no more, and finishes what it accepted.

    A second signal cuts that short.

    Args:
        service: what answers.
        settings: where to listen.
        ready: told address and port once it listens.
    """
    if not settings.is_loopback and settings.api_key is None:
        log.warning(
            "listening on %s without an API key: whoever reaches this machine can use the model",
            settings.host,
        )
    config = uvicorn.Config(
        service.app,
        host=settings.host,
        port=settings.port,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        http=http_protocol(settings.stall_s),
    )
    return _Server(config, ready)
