"""Who misbehaved during a load, and what becomes of a client that fails by itself."""

from __future__ import annotations

import random
import time

import pytest

from pipelines.soak import misbehave, soak
from pipelines.soak.misbehave import CLIENTS, Misbehaviour, burst


@pytest.fixture
def world(monkeypatch):
    """Clients that do nothing, under their own names."""

    def idle(name):
        def client(world, chance):
            del world, chance

        client.__name__ = name
        return client

    for module in (misbehave, soak):
        monkeypatch.setattr(module, "CLIENTS", tuple(idle(c.__name__) for c in CLIENTS))
        monkeypatch.setattr(module, "burst", idle(burst.__name__))
    return Misbehaviour("http://127.0.0.1:9", "m", crowd=1, oversized=1, pause_s=0.001)


def test_clients_that_played_only_before_the_load_are_missing(world, monkeypatch):
    world.once_each()
    assert soak._met(world).passed
    monkeypatch.setattr(world, "_threads", [])
    with world:
        pass

    assert not soak._met(world).passed


def test_every_client_plays_under_load(world):
    with world:
        end = time.monotonic() + 60
        while not (met := soak._met(world).passed) and time.monotonic() < end:
            time.sleep(0.01)

    assert met


def test_a_client_that_fails_by_itself_is_told_and_ends_no_thread(world):
    def broken(world, chance):
        raise RuntimeError("can't start new thread")

    world.play(broken, random.Random(0))  # noqa: S311 - no secret

    assert dict(world.unmet) == {"broken: RuntimeError: can't start new thread": 1}
    assert not soak._met(world).passed


@pytest.mark.parametrize("client", [misbehave.sends_nonsense, misbehave.sends_too_much])
@pytest.mark.parametrize(
    ("answer", "unmet"),
    [
        (b"HTTP/1.1 429 x\r\nRetry-After: 3\r\n\r\n", False),  # full: it reads no body
        (b"HTTP/1.1 429 x\r\n\r\n", True),
        (b"HTTP/1.1 200 x\r\n\r\n", True),
    ],
)
def test_a_full_server_may_refuse_a_body_unread_but_says_when_to_return(
    world, monkeypatch, client, answer, unmet
):
    monkeypatch.setattr(world, "exchange", lambda _: answer)
    world.play(client, random.Random(0))  # noqa: S311 - no secret

    assert bool(world.unmet) is unmet
