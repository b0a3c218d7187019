"""Clients that go, stall or come in crowds; a server that is told to stop; an engine that fails."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import torch

from specdecode.errors import NumericalError
from tests.serving.servers import eventually
from tests.serving.test_api import ASK, PROMPT, post

LONG = {**ASK, "max_tokens": 200}


def send(server, body, path="/v1/completions") -> socket.socket:
    """A request over a bare socket, which can be closed at any moment."""
    data = json.dumps(body).encode()
    connection = socket.create_connection((server.host, server.port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def is_idle(server) -> bool:
    return server.scheduler.running == 0 and server.scheduler.waiting == 0


def aborted(server) -> float:
    text = httpx.get(server.url + "/metrics", timeout=60).text
    found = [
        line
        for line in text.splitlines()
        if line.startswith("vllm:request_success_total") and 'finished_reason="abort"' in line
    ]
    return float(found[0].split()[-1]) if found else 0.0


def passes(server) -> int:
    return server.engine.target.network.passes


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_gone_before_the_first_byte_frees_its_slot(slow, stream):
    server = slow(0.05, slots=1)  # the whole reply would take ten seconds
    connection = send(server, {**LONG, "stream": stream})
    eventually(lambda: server.scheduler.running == 1)

    connection.close()

    eventually(lambda: is_idle(server))
    assert passes(server) < 150
    assert aborted(server) == 1


def test_a_client_gone_while_it_waits_is_never_decoded(slow):
    server = slow(0.05, slots=1)
    first = send(server, {**LONG, "stream": True})
    eventually(lambda: server.scheduler.running == 1)
    second = send(server, LONG)
    eventually(lambda: server.scheduler.waiting == 1)

    second.close()

    eventually(lambda: server.scheduler.waiting == 0)
    assert server.scheduler.running == 1
    first.close()
    eventually(lambda: is_idle(server))
    assert passes(server) < 150


def test_a_client_gone_in_the_middle_of_a_stream(slow):
    server = slow(0.05, slots=1)
    connection = send(server, {**LONG, "stream": True})
    seen = b""
    while seen.count(b"data: ") < 5:
        seen += connection.recv(4096)

    connection.close()

    eventually(lambda: is_idle(server))
    assert passes(server) < 150
    assert post(server, "/v1/completions", **ASK).status_code == 200


def test_a_client_gone_before_done(slow):
    server = slow(slots=1)
    connection = send(server, {**ASK, "stream": True})
    seen = b""
    while b'"length"' not in seen:
        seen += connection.recv(1)
    connection.close()

    eventually(lambda: is_idle(server))
    answer = post(server, "/v1/completions", **ASK)
    assert answer.json()["choices"][0]["finish_reason"] == "length"


def test_a_neighbour_of_clients_that_go_gets_what_it_would_get_alone(slow):
    server = slow(slots=3)
    alone = post(server, "/v1/completions", **{**ASK, "max_tokens": 40}).json()
    results = []

    def ask():
        results.append(post(server, "/v1/completions", **{**ASK, "max_tokens": 40}).json())

    thread = threading.Thread(target=ask)
    thread.start()
    for seed in range(8):
        other = send(server, {**LONG, "seed": seed, "stream": True})
        other.recv(10)
        other.close()
    thread.join(60)

    assert results[0]["choices"] == alone["choices"]


def test_a_slow_reader_delays_nobody_and_gets_everything(slow):
    server = slow(0.002, slots=2, stall_s=600.0)  # if it waited for the reader, then for long
    reader = send(server, {**LONG, "stream": True, "logprobs": 20})
    started = time.monotonic()

    assert post(server, "/v1/completions", **ASK).status_code == 200

    eventually(lambda: is_idle(server))
    assert time.monotonic() - started < 120
    reader.settimeout(60)
    seen = b""
    while b"[DONE]" not in seen:
        seen += (piece := reader.recv(2000))
        assert piece
    assert seen.count(b'"finish_reason": "length"') == 1


def test_a_reader_that_never_reads_is_let_go(slow, caplog):
    server = slow(0.0, slots=1, stall_s=0.3, max_tokens=250, max_replies=16)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.connect((server.host, server.port))
    ask = {**LONG, "max_tokens": 240, "n": 16, "stream": True, "logprobs": 20}
    data = json.dumps(ask).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)

    eventually(lambda: "unread" in caplog.text, 60)

    eventually(lambda: is_idle(server))
    connection.close()


def test_a_crowd_against_a_small_queue(slow):
    """1000 requests, 32 places to wait: each is answered or told when to return."""
    server = slow(0.0, slots=4, queue=32)
    url = server.url + "/v1/completions"
    limits = httpx.Limits(max_connections=100)

    with httpx.Client(timeout=60, limits=limits) as client, ThreadPoolExecutor(100) as pool:
        answers = list(
            pool.map(lambda seed: client.post(url, json={**ASK, "seed": seed}), range(1000))
        )

    codes = {a.status_code for a in answers}
    assert codes == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert answer.json()["error"]["type"] == "rate_limit_error"
        else:
            assert answer.json()["usage"]["completion_tokens"] == 12
    eventually(lambda: is_idle(server))


def test_a_body_that_stops_coming_is_not_waited_for(slow):
    server = slow(slots=1, stall_s=0.3)
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
        connection.sendall(head)

        assert b"408 Request Timeout" in connection.recv(4096)


def test_a_request_past_its_deadline_is_told_so(slow):
    server = slow(slots=1, deadline_s=1.0)  # a whole reply takes four seconds
    whole = post(server, "/v1/completions", **LONG)
    streamed = post(server, "/v1/completions", **LONG, stream=True)

    assert whole.status_code == 504
    assert whole.headers["x-should-retry"] == "false"
    *_, last, done = [line for line in streamed.text.split("\n\n") if line]
    assert json.loads(last.removeprefix("data: "))["error"]["type"] == "timeout_error"
    assert done == "data: [DONE]"
    eventually(lambda: is_idle(server))


def test_what_was_accepted_is_finished_before_the_server_stops(slow):
    server = slow(0.5, slots=1)  # until all are there, however long their clients take
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(post, server, "/v1/completions", **{**ASK, "seed": seed, "max_tokens": 30})
            for seed in range(4)
        ]
        eventually(lambda: server.scheduler.running + server.scheduler.waiting == 4)
        server.engine.target.network.seconds = 0.02
        server.server.should_exit = True
        answers = [future.result() for future in asked]

    assert [a.json()["usage"]["completion_tokens"] for a in answers] == [30] * 4
    server.thread.join(60)
    assert not server.thread.is_alive()
    assert not server.scheduler.is_alive
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", timeout=60)


def test_stopping_at_once_tells_everyone(slow):
    server = slow(slots=1)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(post, server, "/v1/completions", **LONG) for _ in range(2)]
        eventually(lambda: server.scheduler.running + server.scheduler.waiting == 2)
        assert server.scheduler.stop(finish=False, timeout_s=60)
        codes = [future.result().status_code for future in asked]

    assert codes == [503, 503]
    assert httpx.get(server.url + "/health", timeout=60).status_code == 503
    assert post(server, "/v1/completions", **ASK).status_code == 503


class Fails:
    """A network that fails for some batches."""

    def __init__(self, network, error, when) -> None:
        self._network, self._error, self._when = network, error, when
        self.device, self.vocab_size = network.device, network.vocab_size

    @property
    def seconds(self):
        return self._network.seconds

    @seconds.setter
    def seconds(self, seconds):
        self._network.seconds = seconds

    def forward(self, tokens, starts, cache, select=None):
        if self._when(tokens, starts):
            raise self._error
        return self._network.forward(tokens, starts, cache, select)


def three_at_once(server):
    def ask(seed):
        words = " ".join([PROMPT, *["dog"] * seed])
        return post(server, "/v1/completions", **{**ASK, "prompt": words, "max_tokens": 60})

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(ask, range(3)))


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (NumericalError("NaN", 1), [200, 200, 500]),
        (torch.OutOfMemoryError("CUDA out of memory"), [200, 200, 503]),
        (RuntimeError("no idea"), [500, 500, 500]),
    ],
)
def test_a_step_that_fails_ends_as_few_replies_as_can_be(slow, error, codes):
    server = slow(0.005, slots=3)
    good = server.engine.target.network
    failed = []

    def when(tokens, starts):
        hit = len(starts) == 3 and not failed
        if hit:
            failed.append(True)
        elif not failed:
            time.sleep(0.2)  # or the first reply is over before the third one has begun
        return hit

    object.__setattr__(server.engine.target, "network", Fails(good, error, when))
    answers = three_at_once(server)

    assert sorted(a.status_code for a in answers) == codes
    assert post(server, "/v1/completions", **ASK).status_code == 200
    assert httpx.get(server.url + "/health", timeout=60).status_code == 200
