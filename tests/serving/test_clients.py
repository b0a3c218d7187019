"""Slow and clever clients: none of them keeps the others waiting, or memory from being freed."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode.decoding.request import Request
from tests.serving.servers import eventually, serving, tiny_engine
from tests.serving.test_api import ASK, PROMPT, post
from tests.serving.test_faults import is_idle, send

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"


def connected(server) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=60)


def test_a_head_that_never_ends_is_not_waited_for(slow):
    server = slow(stall_s=1.0)
    with connected(server) as silent, connected(server) as drips:
        drips.sendall(HEAD)
        assert silent.recv(10) == b""
        assert drips.recv(10) == b""


def test_nor_is_the_second_one_of_a_connection(slow):
    server = slow(stall_s=1.0)
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in connection.recv(4096)
        connection.sendall(HEAD)
        seen = b"more"
        while seen:
            seen = connection.recv(4096)


def test_a_head_in_pieces_and_a_reply_that_takes_longer_are_no_fault(slow):
    server = slow(0.02, stall_s=0.5, slots=1)
    data = json.dumps({**ASK, "max_tokens": 100}).encode()
    with connected(server) as connection:
        connection.sendall(HEAD)
        connection.sendall(f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        assert b"200 OK" in connection.recv(4096)


def test_a_body_that_drips_is_not_waited_for_for_ever(slow):
    server = slow(stall_s=10.0, deadline_s=0.6)
    with connected(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        connection.settimeout(0.1)
        answer, sent = b"", 0
        while not answer:
            assert (sent := sent + 1) < 200
            connection.sendall(b" ")
            try:
                answer = connection.recv(4096)
            except TimeoutError:
                continue
        assert b"408 Request Timeout" in answer


def test_requests_in_a_row_on_one_connection_are_answered_in_their_order(server):
    data = [json.dumps({**ASK, "max_tokens": n}).encode() for n in (9, 3)]
    heads = [HEAD + f"Content-Length: {len(d)}\r\n\r\n".encode() + d for d in data]
    with connected(server) as connection:
        connection.sendall(b"".join(heads))
        seen = b""
        while seen.count(b"completion_tokens") < 2:
            seen += (piece := connection.recv(65536))
            assert piece
    assert seen.index(b'"completion_tokens":9') < seen.index(b'"completion_tokens":3')


class Blocked:
    """A tokenizer that reads some texts only when it is let."""

    def __init__(self, tokenizer, hold) -> None:
        self._tokenizer, self._hold = tokenizer, hold
        self.entered, self.let = threading.Semaphore(0), threading.Event()

    def __call__(self, text, **options):
        if self._hold in text:
            self.entered.release()
            assert self.let.wait(60)
        return self._tokenizer(text, **options)

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)


@pytest.fixture
def blocked(slow):
    server = slow(0.0, slots=2, queue=2)
    tokenizer = Blocked(server.engine.target.tokenizer, "blue")
    object.__setattr__(server.engine.target, "tokenizer", tokenizer)
    yield server, tokenizer
    tokenizer.let.set()


def test_a_long_text_keeps_nobody_else_waiting(blocked):
    server, tokenizer = blocked
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(post, server, "/v1/completions", **{**ASK, "prompt": f"{PROMPT} blue"})
        assert tokenizer.entered.acquire(timeout=60)

        assert httpx.get(server.url + "/health", timeout=60).status_code == 200
        assert post(server, "/v1/completions", **ASK).status_code == 200

        assert not held.done()
        tokenizer.let.set()
        assert held.result().json()["usage"]["prompt_tokens"] == 7


def test_a_client_gone_while_its_text_is_read_is_never_decoded(blocked):
    server, tokenizer = blocked
    connections = [send(server, {**ASK, "prompt": "blue"}) for _ in range(4)]
    for _ in range(2):  # as many as there are workers
        assert tokenizer.entered.acquire(timeout=60)

    for connection in connections:
        connection.close()
    eventually(lambda: 'status="499"} 4.0' in httpx.get(server.url + "/metrics", timeout=60).text)
    tokenizer.let.set()

    assert post(server, "/v1/completions", **ASK).status_code == 200
    assert server.engine.target.network.passes < 20
    assert not tokenizer.entered.acquire(timeout=0.1)  # the other two were not even read


def test_a_full_queue_is_told_before_the_body_comes(slow):
    server = slow(0.05, slots=1, queue=1)
    busy = [send(server, {**ASK, "max_tokens": 200})]
    eventually(lambda: server.scheduler.running == 1)
    busy.append(send(server, {**ASK, "max_tokens": 200}))
    eventually(lambda: server.scheduler.waiting == 1)

    with connected(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n{")

        assert b"429 Too Many Requests" in connection.recv(4096)
    for connection in busy:
        connection.close()


def requests_alive() -> int:
    gc.collect()
    return sum(type(thing) is Request for thing in gc.get_objects())


def test_nothing_is_kept_of_requests_that_are_over(engine_folder):
    with serving(tiny_engine(engine_folder), slots=3) as server:
        before = requests_alive()
        for seed in range(6):
            post(server, "/v1/completions", **{**ASK, "seed": seed, "n": 2})
            post(server, "/v1/completions", **{**ASK, "seed": seed, "stream": True, "stop": "cat"})
            gone = send(server, {**ASK, "max_tokens": 240, "stream": True})
            gone.recv(10)
            gone.close()
        eventually(lambda: is_idle(server))
        end = time.monotonic() + 60
        while requests_alive() > before:
            assert time.monotonic() < end
            time.sleep(0.2)
