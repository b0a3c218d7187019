"""Slots that memory has no room for."""

from __future__ import annotations

import threading

import psutil
import pytest
import torch

from specdecode.errors import ConfigError
from specdecode.models.cache import KVCache
from specdecode.serving import room
from specdecode.serving.room import bytes_per_token
from specdecode.serving.run import make_service
from specdecode.serving.settings import ServerSettings
from tests.serving.servers import tiny_engine


def test_slots_without_memory_are_refused_with_how_many_there_is_room_for(tmp_path):
    engine = tiny_engine(tmp_path / "tiny", None)
    token = bytes_per_token(engine.target.network)

    with pytest.raises(ConfigError, match=r"slots=1000000000: .* give at most \d+") as error:
        make_service(engine, ServerSettings("m", slots=10**9))

    most = int(str(error.value).rsplit(" ", 1)[1])
    assert most * 256 * token <= psutil.virtual_memory().total
    assert 0 < most < 10**9


def test_slots_whose_long_replies_do_not_fit_are_warned_of(tmp_path, monkeypatch, caplog):
    engine = tiny_engine(tmp_path / "tiny", None)
    token = bytes_per_token(engine.target.network)
    monkeypatch.setattr(room, "free_bytes", lambda _device: 4 * 256 * token)

    room.check_slots(engine, 4, 256)
    assert not caplog.messages
    room.check_slots(engine, 4, 257)
    assert "4 slots of 257 tokens take" in caplog.text
    with pytest.raises(ConfigError, match="give at most 4"):
        room.check_slots(engine, 5, 257)


def test_a_token_takes_what_its_keys_and_values_take(tmp_path):
    network = tiny_engine(tmp_path / "tiny", None).target.network
    cache = KVCache(1, 7)
    network.forward(torch.zeros(1, 5, dtype=torch.int64), [0], cache)

    assert cache.bytes_held == 7 * bytes_per_token(network)


def test_what_a_token_takes_is_computed_in_another_thread(tmp_path, monkeypatch):
    """A pool of libgomp's for this one would slow every step down that the engine's makes."""
    network = tiny_engine(tmp_path / "tiny", None).target.network
    forward, threads = network.forward, []

    def seen(*inputs):
        threads.append(threading.get_ident())
        return forward(*inputs)

    monkeypatch.setattr(network, "forward", seen)
    bytes_per_token(network)

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_a_container_may_use_less_than_the_machine_has(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_CGROUP", tmp_path)
    cpu = torch.device("cpu")
    assert room.free_bytes(cpu) > 1000
    (tmp_path / "memory.current").write_text("400\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert room.free_bytes(cpu) > 1000
    (tmp_path / "memory.max").write_text("1000\n")
    assert room.free_bytes(cpu) == 600
