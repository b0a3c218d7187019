"""What a router does for clients that leave, ask too much, or are odd, and with their keys."""

from __future__ import annotations

import http.client
import socket
import threading

import pytest

from specdecode.rollout import upstream
from specdecode.rollout.relay import ClientGoneError
from specdecode.rollout.run import http_log
from tests.rollout.forwarding import DEAD, MODES, both
from tests.rollout.routers import CHAT_PATH, eventually, routing
from tests.rollout.scripts import KeptOpen, held, replying, routes
from tests.wire.engines import CHAT, VLLM
from tests.wire.replies import (
    events,
    json_reply,
    stream,
)
from tests.wire.server import WireServer


def connected(router):
    host, port = router.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


class TestClientLeaves:
    @pytest.mark.parametrize("mode", MODES)
    def test_before_the_first_byte(self, tmp_path, mode):
        gate = threading.Event()
        with both(held(gate, []), tmp_path, mode) as router:
            server = router.candidate if mode in ("canary", "full") else router.baseline
            arm = "block" if mode in ("canary", "full") else "plain"
            with connected(router) as client:
                body = b'{"messages": [], "stream": true}'
                head = (
                    f"POST {CHAT_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
                )
                client.sendall(head.encode() + body)
                eventually(lambda: server.asked(CHAT_PATH))
            # Before the server says anything: it has nothing to say, which is a failure of its own.
            eventually(lambda: router.metric("requests_total", arm=arm, outcome="cancelled") == 1)
            gate.set()  # the server notices at its first write
            eventually(lambda: server.gone or not server._tasks)

            if mode in ("canary", "full"):
                assert not router.baseline.requests  # nobody is left to answer
                assert [r["kind"] for r in router.lines(settled=1)][-1] == "cancelled"

    @pytest.mark.parametrize("mode", MODES)
    def test_in_mid_stream_the_server_is_told(self, tmp_path, mode):
        script = stream(
            [b": ping\n\n", *events(VLLM.chunks()[:2], done=False)] * 2000, delay_s=0.01
        )
        # A copy goes on for a minute: nobody need wait for its end.
        with both(script, tmp_path, mode, finish_s=0.2) as router:
            body = {"messages": [], "stream": True}
            with router.client.stream("POST", CHAT_PATH, json=body) as response:
                next(response.iter_raw())
            server = router.candidate if mode in ("canary", "full") else router.baseline
            eventually(lambda: server.gone == 1)
            if mode in ("canary", "full"):
                assert router.rows(settled=1) == []
                assert router.lines("cancelled")

    def test_in_the_middle_of_its_body(self, tmp_path):
        with both(None, tmp_path, "canary") as router:
            with connected(router) as client:
                head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
                client.sendall(head.encode() + b'{"mess')
            assert router.ask(stream=False).status_code == 200
            assert len(router.candidate.requests) == 1

    def test_one_that_does_not_read_is_given_up(self, tmp_path):
        script = stream([b"data: " + b"x" * 60_000 + b"\n\n"] * 500)
        with both(script, tmp_path, stall_s=1.0) as router, connected(router) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = b'{"stream": true}'
            head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            eventually(lambda: router.baseline.gone == 1)

    def test_it_leaves_no_trace_in_the_log(self, caplog):
        # Each used to: aiohttp tells of whatever ends a request.
        for error in (ClientGoneError("the client left"), ConnectionResetError(), KeyError("ours")):
            http_log.error("Error handling request from %s", "127.0.0.1", exc_info=error)

        assert [record.exc_info[0] for record in caplog.records] == [KeyError]


class TestLimits:
    def test_a_body_that_says_it_is_too_long(self, tmp_path):
        with both(None, tmp_path, max_body_bytes=1000) as router:
            response = router.ask("x" * 2000)

            assert response.status_code == 413
            assert "1000 bytes" in response.json()["error"]["message"]
            assert router.ask("x").status_code == 200

    def test_a_body_that_turns_out_to_be_too_long(self, tmp_path):
        with both(None, tmp_path, max_body_bytes=1000) as router:
            response = router.client.post(CHAT_PATH, content=iter([b"x" * 600] * 3))

        assert response.status_code == 413

    def test_a_body_that_does_not_come(self, tmp_path):
        with both(None, tmp_path, stall_s=1.0) as router:
            connection = http.client.HTTPConnection(router.url.removeprefix("http://"), timeout=60)
            connection.putrequest("POST", CHAT_PATH)
            connection.putheader("Content-Length", "100")
            connection.endheaders(b'{"mess')

            assert connection.getresponse().status == 408
            connection.close()

    def test_a_path_that_is_not_there(self, tmp_path):
        with both(None, tmp_path) as router:
            response = router.client.get("/v2/models")

        assert response.status_code == 404
        assert "/v1/" in response.json()["error"]["message"]


class TestRest:
    def test_other_routes_go_to_the_baseline_in_every_mode(self, tmp_path):
        with both(None, tmp_path, "full") as router:
            found = router.client.get("/v1/models")

            assert found.json()["data"][0]["id"] == "m"
            assert found.headers["x-specdecode-arm"] == "plain"
            assert not router.candidate.requests

    def test_an_upload_is_passed_on_as_it_comes(self, tmp_path):
        content = b"x" * 3_000_000
        with both(None, tmp_path, max_body_bytes=1000) as router:
            router.baseline.routes["POST", "/v1/files"] = json_reply({"id": "f"})
            found = router.client.post("/v1/files", content=content)
            [request] = router.baseline.asked("/v1/files")

        assert (found.json(), request.body) == ({"id": "f"}, content)

    def test_a_head(self, tmp_path):
        with both(None, tmp_path) as router:
            router.baseline.routes["HEAD", "/v1/models"] = [
                b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\nConnection: close\r\n\r\n"
            ]
            found = router.client.head("/v1/models")

        assert (found.status_code, found.headers["content-length"]) == (200, "77")

    def test_a_way_out_of_the_api_is_refused(self, tmp_path):
        with both(None, tmp_path) as router:
            connection = http.client.HTTPConnection(router.url.removeprefix("http://"), timeout=60)
            connection.request("GET", "/v1/../metrics")

            assert connection.getresponse().status == 404
            assert not router.baseline.requests
            connection.close()

    def test_a_client_of_http_1_0(self, tmp_path):
        with both(None, tmp_path) as router, connected(router) as client:
            body = b'{"stream": true}'
            head = f"POST {CHAT_PATH} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            got = b""
            while some := client.recv(65536):
                got += some

        assert got.partition(b"\r\n\r\n")[2] == b"".join(events(VLLM.chunks()))


class TestCredentials:
    def test_only_the_baseline_gets_those_of_clients(self, tmp_path):
        with both(None, tmp_path, "shadow") as router:
            router.ask(headers={"Authorization": "Bearer user", "Cookie": "a=b"})
            router.lines(settled=2)
            [one], [two] = router.baseline.asked(CHAT_PATH), router.candidate.asked(CHAT_PATH)

        assert one.headers["authorization"] == "Bearer user"
        assert not {"authorization", "cookie"} & set(two.headers)

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [({}, None), ({"candidate_key": "own"}, "Bearer own"),
         ({"candidate_takes_credentials": True}, "Bearer user")],
        ids=["neither", "key", "forwarded"],
    )  # fmt: skip
    def test_a_canary_gets_its_own_or_what_it_may(self, tmp_path, settings, expected):
        with both(None, tmp_path, "canary", **settings) as router:
            router.ask(headers={"Authorization": "Bearer user"})
            [request] = router.candidate.asked(CHAT_PATH)

        assert request.headers.get("authorization") == expected

    def test_the_user_is_named_to_nobody(self, tmp_path):
        with both(None, tmp_path, "canary") as router:
            router.ask(headers={"x-specdecode-user": "somebody"})
            [request] = router.candidate.asked(CHAT_PATH)

        assert "x-specdecode-user" not in request.headers
        assert request.headers["x-specdecode-request-id"]


class TestConnections:
    def test_they_are_used_again(self, tmp_path, monkeypatch):
        monkeypatch.setattr(upstream, "_POOL_S", 60.0)  # a machine may stall for longer than that
        with KeptOpen() as server, routing(server.url, DEAD, tmp_path) as router:
            for _ in range(5):
                assert router.ask(stream=False).status_code == 200

            assert (server.answered, server.accepted) == (5, 1)

    def test_one_that_was_closed_while_idle_is_no_failure(self, tmp_path, monkeypatch):
        monkeypatch.setattr(upstream, "_STALE_S", 60.0)  # as above
        with KeptOpen() as server, routing(server.url, DEAD, tmp_path) as router:
            for _ in range(20):
                assert router.ask(stream=False).status_code == 200
                server.close_idle()

            assert server.answered == 20


class TestTwoServers:
    def test_the_reply_names_the_arm_that_gave_it(self, tmp_path):
        with (
            WireServer(routes(replying("from the baseline"))) as baseline,
            WireServer(routes(replying("from the candidate"))) as candidate,
            routing(baseline.url, candidate.url, tmp_path, "canary", 0.5) as router,
        ):
            found = [
                router.ask(stream=False, headers={"x-specdecode-user": f"u{i}"}) for i in range(30)
            ]

        words = {"plain": "from the baseline", "block": "from the candidate"}
        told = [
            (r.headers["x-specdecode-arm"], r.json()["choices"][0]["message"]["content"])
            for r in found
        ]
        assert {arm for arm, _ in told} == set(words)
        assert all(words[arm] == text for arm, text in told)
        assert len({r.headers["x-specdecode-request-id"] for r in found}) == 30
        assert len(baseline.requests) + len(candidate.requests) == 30

    def test_chat_is_the_route_of_the_wire(self):
        assert CHAT == ("POST", CHAT_PATH)


class TestOddClients:
    """What is no good HTTP harms nobody else."""

    @staticmethod
    def talk(router, data):
        with connected(router) as client:
            client.sendall(data)
            got = b""
            while some := client.recv(65536):
                got += some
                if b"\r\n\r\n" in got:
                    break
            return got

    HEAD = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n".encode()

    @pytest.mark.parametrize("mode", ["off", "canary"])
    def test_header_bytes_that_are_no_utf_8(self, tmp_path, mode):
        with both(None, tmp_path, mode) as router:
            assert b" 200 " in self.talk(router, self.HEAD + b"X-A: \xff\xfc\r\n\r\n{}")

    def test_header_bytes_of_a_server_that_are_no_utf_8(self, tmp_path):
        script = [
            b"HTTP/1.1 200 OK\r\nX-A: \xff\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
        ]
        with both(script, tmp_path) as router:
            assert b" 200 " in self.talk(router, self.HEAD + b"\r\n{}")

    @pytest.mark.parametrize(
        "data",
        [
            b"NONSENSE\r\n\r\n",
            b"GET /v1/models HTTP/1.1\r\n\r\n",
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n{}",
            HEAD.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"\r\nzz\r\n",
        ],
        ids=["no-http", "no-host", "two-lengths", "no-chunk"],
    )
    def test_they_are_refused_in_a_line_of_the_log(self, tmp_path, caplog, data):
        with both(None, tmp_path) as router:
            assert b" 400 " in self.talk(router, data)
            assert router.ask(stream=False).status_code == 200
            assert len(router.baseline.requests) == 1
        assert not [r for r in caplog.records if r.exc_info]

    def test_one_that_never_finishes_its_head_is_cut_off(self, tmp_path):
        with both(None, tmp_path, stall_s=1.0) as router:
            assert self.talk(router, b"POST /v1/chat/completions HTTP/1.1\r\nHost") == b""
            assert router.ask(stream=False).status_code == 200
