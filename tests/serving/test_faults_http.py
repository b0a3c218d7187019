"""HTTP that breaks its own rules, over bare sockets: it gets an answer or an end, never a wait."""

from __future__ import annotations

import json
import socket
import threading

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.soak.raw_http import (
    connected,
    header_of,
    post,
    post_chunked,
    read_to_end,
    read_until,
    status_of,
)
from tests.serving.servers import eventually, serving, tiny_engine
from tests.serving.test_api import ASK
from tests.serving.test_faults import is_idle
from tests.serving.test_faults_bodies import QUIET

SHORT = {**ASK, "max_tokens": 2}
BODY = json.dumps(SHORT).encode()
LINE = b"POST /v1/completions HTTP/1.1\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CLOSE = b"Connection: close\r\n"


@pytest.fixture(scope="module")
def server(engine_folder):
    with serving(tiny_engine(engine_folder), slots=2, stall_s=1.0, max_body_bytes=50_000) as it:
        yield it


def answer_to(server, data: bytes, *, ends: bool = False) -> bytes:
    """Everything that comes back until the server closes the connection, which it must."""
    with connected(server.url, 60) as connection:
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except OSError:  # it has closed already, which is an answer, too
            pass
        return read_to_end(connection)


def is_well(server) -> None:
    assert httpx.post(server.url + "/v1/completions", json=SHORT, timeout=60).status_code == 200
    eventually(lambda: is_idle(server))
    # What is left of clients that are gone would be found here.
    # (In a list, as the server changes its own set meanwhile.)
    there = server.server.server_state.connections
    eventually(lambda: not [c for c in list(there) if c.cycle is None])


def whole(answer: bytes) -> bool:
    return status_of(answer) == 200 and b'"finish_reason":"length"' in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /v1/completions HTTP/1.0\r\n" + LENGTH + b"\r\n" + BODY,
        LINE + b"Host: x\r\n" + LENGTH + CLOSE + b"\r\n" + BODY,
        (LINE + b"Host: x\r\n" + LENGTH + CLOSE).replace(b"\r\n", b"\n") + b"\n" + BODY,
        LINE + b"hOsT: x\r\nX: a\r\n b\r\n" + LENGTH + CLOSE + b"\r\n" + BODY,
        LINE + b"Host: \xff\r\nX-Specdecode-Category: \xff\xfe\r\nAuthorization: \xff\r\n"
        b"Content-Type: \xff/\x80;;=\r\nAccept: \r\n" + LENGTH + CLOSE + b"\r\n" + BODY,
        LINE + b"Host: x\r\nExpect: 100-continue\r\n" + LENGTH + CLOSE + b"\r\n" + BODY,
        LINE + b"Host: x\r\nUpgrade: h2c\r\n" + LENGTH
        + b"Connection: upgrade, close\r\n\r\n" + BODY,
        LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n"
        b"%x;name=value\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(BODY), BODY),
        LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n"
        + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n",
    ],
)  # fmt: skip
def test_odd_but_lawful_requests_are_served(server, request_bytes):
    answer = answer_to(server, request_bytes)

    assert whole(answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n"))
    is_well(server)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (LINE + b"Host: x\r\nContent-Length: -1\r\n\r\n" + BODY, 400),
        (LINE + b"Host: x\r\nContent-Length: 0x10\r\n\r\n" + BODY, 400),
        (LINE + b"Host: x\r\nContent-Length: +5\r\n\r\n" + BODY, 400),
        (LINE + b"Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + BODY, 400),
        (LINE + b"Host: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (LINE + b"Host: x\r\nContent-Length: 9999999999999999999\r\n\r\n", 413),
        (LINE + b"Host: x\r\nContent-Length: 50001\r\n\r\n", 413),
        (LINE + b"Host: x\r\nContent-Length: 500\r\n\r\n" + BODY, 408),
        (LINE + b"Host: x\r\nTransfer-Encoding: gzip\r\n\r\n" + BODY, 400),
        (LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n", 400),
        (LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n", 400),
        (LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 300 + b"\r\n{}", 400),
        (LINE + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n{}", 408),
        (LINE + b"Content-Length: 2\r\n\r\n{}", 400),
        (LINE + b"Host: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", 400),
        (LINE + b"Host: x\r\n" + b"X: a\r\n" * 30_000 + b"\r\n", 400),
        (LINE + b"Host: x\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\n{}", 400),
        (LINE + b"Host: x\r\nno colon\r\n\r\n", 400),
        (b"POST /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"GET /%ff%00/../../etc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"\r\n" * 100_000, None),
        (b"", None),
    ],
)
def test_requests_that_break_http_are_told_and_closed(server, request_bytes, status):
    answer = answer_to(server, request_bytes)

    if status is not None:
        assert status_of(answer) == status
    assert not whole(answer)
    is_well(server)


@QUIET
@given(noise=st.binary(max_size=200), line=st.sampled_from([b"", LINE, LINE + b"Host: x\r\n"]))
def test_any_bytes_instead_of_a_request_end_the_connection(server, noise, line):
    answer = answer_to(server, line + noise + b"\r\n\r\n", ends=True)

    assert status_of(answer) in (None, 400, 404, 405, 408, 413)
    assert httpx.get(server.url + "/health", timeout=60).status_code == 200


def test_an_upgrade_to_websocket_is_passed_over(server):
    wish = (
        b"GET /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert status_of(answer_to(server, wish)) == 405
    is_well(server)


def test_pipelined_requests_are_answered_in_order(server):
    asks = [{**SHORT, "max_tokens": tokens} for tokens in (1, 2, 3)]
    last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    answer = answer_to(server, b"".join(post(ask) for ask in asks) + last)

    assert answer.count(b"HTTP/1.1 200 OK") == 4
    places = [answer.index(b'"completion_tokens":%d' % tokens) for tokens in (1, 2, 3)]
    assert places == sorted(places)
    assert answer.endswith(b'{"status":"ok"}')
    is_well(server)


def test_nonsense_behind_a_request_does_not_touch_its_stream(server):
    asked = post({**ASK, "stream": True})

    answer = answer_to(server, asked + b"\x00nonsense\r\n\r\n")

    assert status_of(answer) == 200
    assert answer.count(b"data: [DONE]") == 1
    is_well(server)


@pytest.mark.parametrize("before", [b"", post(SHORT)])
def test_a_head_that_comes_a_byte_at_a_time_is_not_waited_for(server, before):
    """uvicorn alone would wait for ever: a thousand such clients would take all files."""
    with connected(server.url, 60) as connection:
        stopped = threading.Event()
        connection.sendall(before)

        def trickle():
            for byte in LINE + b"Host: x\r\nX: " + b"a" * 10_000:
                if stopped.wait(0.05):
                    return
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        answer = read_to_end(connection)  # times out if the server goes on waiting
        stopped.set()
        thread.join()

    assert status_of(answer) == (200 if before else None)
    is_well(server)


def test_a_slow_head_in_time_is_served(server):
    request_bytes = LINE + b"Host: x\r\n" + LENGTH + CLOSE + b"\r\n" + BODY
    with connected(server.url, 60) as connection:
        for place in range(0, len(request_bytes), 40):
            connection.sendall(request_bytes[place : place + 40])
        assert whole(read_to_end(connection))


def test_a_reply_longer_than_the_wait_for_a_head_is_whole(slow):
    server = slow(0.05, slots=1, stall_s=0.4)
    ask = {**ASK, "max_tokens": 40, "stream": True}

    with connected(server.url, 60) as connection:
        connection.sendall(post(ask))
        first = read_until(connection, b"data: [DONE]\n\n")
        connection.sendall(post(ask))  # on the same connection
        second = read_until(connection, b"data: [DONE]\n\n")

    assert server.engine.target.network.passes * 0.05 > 2 * 0.4
    assert first.count(b'"finish_reason": "length"') == 1
    assert second.count(b'"finish_reason": "length"') == 1


@pytest.mark.parametrize("declared", [True, False])
def test_an_endless_body_is_refused_while_it_comes(server, declared):
    """The answer comes before the end of the body, and what is not read is not kept."""
    piece = b" " * 16_384
    head = (
        b"Content-Length: 100000000\r\n\r\n" if declared else b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with connected(server.url, 60) as connection:
        connection.sendall(LINE + b"Host: x\r\n" + head)
        stopped = threading.Event()

        def pour():
            chunk = piece if declared else b"4000\r\n" + piece + b"\r\n"
            try:
                while not stopped.is_set():
                    connection.sendall(chunk)
            except OSError:
                pass

        thread = threading.Thread(target=pour)
        thread.start()
        answer = read_to_end(connection)  # the server ends it, or this times out
        stopped.set()
        thread.join()

    # If the reset of the connection overtook the answer, nothing is left of it.
    assert status_of(answer) in (413, None)
    is_well(server)


def test_an_oversized_body_in_chunks_is_refused(server):
    answer = answer_to(server, post_chunked([b" " * 30_000, b" " * 30_000]))

    assert status_of(answer) == 413
    assert "50000 bytes" in answer.decode()
    assert header_of(answer, "content-type") == "application/json"
    is_well(server)
