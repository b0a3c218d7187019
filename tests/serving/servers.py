"""Real servers on a loopback port, with a tiny random model behind them."""

from __future__ import annotations

import contextlib
import threading
import time

import uvicorn

from specdecode import Engine
from specdecode.models import load_model
from specdecode.serving.run import make_server, make_service
from specdecode.serving.settings import ServerSettings
from tests.tiny_models import write_tiny_model

NAME = "tiny"
CHAT_TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


def tiny_engine(folder, draft="self-int8", rule="block", gamma=3) -> Engine:
    model = load_model(write_tiny_model(folder), device="cpu", dtype="float32")
    model.tokenizer.chat_template = CHAT_TEMPLATE
    return Engine.load(model, draft, verification=rule, num_speculative_tokens=gamma)


class Running:
    """A server in a thread.

    Args:
        engine: behind it.
        settings: of `ServerSettings`, other than name and port.
    """

    def __init__(self, engine: Engine, **settings) -> None:
        self.engine = engine
        self.settings = ServerSettings(model_name=NAME, port=0, **settings)
        self.service = make_service(engine, self.settings)
        self.bound = threading.Event()
        self.server: uvicorn.Server = make_server(self.service, self.settings, self._ready)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        assert self.bound.wait(60)

    def _ready(self, host, port) -> None:
        self.host, self.port = host, port
        self.bound.set()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def scheduler(self):
        return self.service.scheduler

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def serving(engine, **settings):
    running = Running(engine, **settings)
    try:
        yield running
    finally:
        running.stop()


def eventually(condition, seconds=60.0) -> None:
    """Wait until something holds that other threads bring about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)


class SlowNetwork:
    """A network that waits before each pass, so that tests can act in the middle of a reply."""

    def __init__(self, network, seconds=0.02) -> None:
        self._network, self.seconds = network, seconds
        self.device, self.vocab_size = network.device, network.vocab_size
        self.passes = 0

    def forward(self, *args, **options):
        self.passes += 1
        time.sleep(self.seconds)
        return self._network.forward(*args, **options)
