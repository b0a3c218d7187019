"""What clients get is what the server sent, as it sent it, in every mode."""

from __future__ import annotations

import gzip
import json
import threading

import httpx
import pytest

from tests.rollout.forwarding import DEAD, MODES, STREAMED, UNCOUNTED, both, raw_body
from tests.rollout.routers import CHAT_PATH, TEXT_PATH, routing
from tests.rollout.scripts import broken_off, gated, held
from tests.wire.engines import VLLM
from tests.wire.replies import (
    cut_inside,
    error_reply,
    events,
    every,
    json_reply,
    reply,
    stream,
    with_comments,
)


class TestBytes:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(
        "pieces",
        [
            events(VLLM.chunks()),
            every(7, events(VLLM.chunks(), newline="\r\n", space=False)),
            with_comments(events(VLLM.chunks())),
        ],
        ids=["events", "split", "comments"],
    )
    def test_a_stream_is_the_same_byte_by_byte(self, tmp_path, mode, pieces):
        with both(stream(pieces), tmp_path, mode) as router:
            response, body = raw_body(router, json.dumps(STREAMED).encode())

        assert body == b"".join(pieces)
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in response.headers

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("path", [CHAT_PATH, TEXT_PATH])
    def test_a_body_is_the_same_byte_by_byte(self, tmp_path, mode, path):
        content = json.dumps(VLLM.body(), indent=3).encode()
        with both(None, tmp_path, mode) as router:
            for server in (router.baseline, router.candidate):
                server.routes["POST", path] = reply(content, "application/json", 200, {"X-A": "b"})
            response, body = raw_body(router, b'{"prompt": "a", "messages": []}', path)

        assert body == content
        assert response.headers["x-a"] == "b"
        assert int(response.headers["content-length"]) == len(content)

    @pytest.mark.parametrize("mode", MODES)
    def test_a_request_is_the_same_byte_by_byte(self, tmp_path, mode):
        content = b' {"messages":[{"role" :"user","content":"\\ud83d\\ude00 \xc3\xa9"}],\n"n":1 }'
        with both(None, tmp_path, mode) as router:
            raw_body(router, content, f"{CHAT_PATH}?a=%2F&b=1+2")
            server = router.candidate if mode in ("canary", "full") else router.baseline
            [request] = server.asked(f"{CHAT_PATH}?a=%2F&b=1+2")

        assert request.body == content

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 50_000])
    def test_what_is_not_json_is_for_the_baseline_to_refuse(self, tmp_path, mode, content):
        with both(error_reply(404, "no JSON"), tmp_path, mode) as router:
            response, body = raw_body(router, content)
            [request] = router.baseline.requests

        assert (response.status_code, request.body) == (404, content)
        assert json.loads(body)["error"]["message"] == "no JSON"

    def test_a_reply_that_is_longer_than_one_piece(self, tmp_path):
        content = json.dumps(VLLM.body(pad="x" * 3_000_000)).encode()
        with both(reply(content, "application/json"), tmp_path, "shadow") as router:
            _, body = raw_body(router, b'{"messages": []}')

            assert body == content
            assert len(router.rows(settled=2)) == 2

    def test_a_body_that_comes_in_chunks(self, tmp_path):
        with both(None, tmp_path) as router:
            # The wire server of the tests reads bodies by their length.
            raw_body(router, iter([b'{"messages"', b": []}"]))
            [request] = router.baseline.requests

        assert request.body == b'{"messages": []}'

    @pytest.mark.parametrize("status", [307, 401, 404, 429, 500, 503])
    def test_a_status_of_the_baseline_is_passed_on(self, tmp_path, status):
        script = json_reply({"error": "x"}, status, {"Retry-After": "7"})
        with both(script, tmp_path) as router:
            response = router.ask(stream=False)

        assert response.status_code == status
        assert response.headers["retry-after"] == "7"
        assert response.json() == {"error": "x"}

    def test_a_compressed_reply_stays_compressed_for_who_asked(self, tmp_path):
        packed = gzip.compress(json.dumps(VLLM.body()).encode())
        script = reply(packed, "application/json", 200, {"Content-Encoding": "gzip"})
        with both(script, tmp_path) as router:
            _, body = raw_body(router, b"{}", headers={"Accept-Encoding": "gzip"})
            [request] = router.baseline.requests

        assert body == packed
        assert request.headers["accept-encoding"] == "gzip"

    def test_a_reply_under_judgement_comes_as_it_can_be_read(self, tmp_path):
        with both(None, tmp_path, "shadow") as router:
            router.ask(headers={"Accept-Encoding": "gzip"})
            router.lines(settled=2)
            asked = [s.requests[0] for s in (router.baseline, router.candidate)]

        assert [r.headers["accept-encoding"] for r in asked] == ["identity"] * 2


class TestUnbuffered:
    @pytest.mark.parametrize("mode", MODES)
    def test_each_event_is_there_before_the_next_one_was_sent(self, tmp_path, mode):
        gate = threading.Event()
        pieces = events(VLLM.chunks())
        with (
            both(gated(pieces, gate, before=2), tmp_path, mode) as router,
            router.client.stream("POST", CHAT_PATH, json=STREAMED) as response,
        ):
            got, incoming = b"", response.iter_raw()
            while len(got) < len(pieces[0] + pieces[1]):
                got += next(incoming)
            assert got == pieces[0] + pieces[1]
            gate.set()

            assert got + b"".join(incoming) == b"".join(pieces)

    def test_the_headers_are_there_before_the_first_event(self, tmp_path):
        gate = threading.Event()
        script = gated(events(VLLM.chunks()), gate, before=0)
        with (
            both(script, tmp_path) as router,
            router.client.stream("POST", CHAT_PATH, json={"stream": True}) as response,
        ):
            assert response.status_code == 200
            gate.set()
            response.read()


class TestBroken:
    def test_no_server_at_all(self, tmp_path):
        with routing(DEAD, DEAD, tmp_path) as router:
            response = router.ask()

        assert response.status_code == 502
        assert "refused" in response.json()["error"]["message"]
        assert response.headers["x-specdecode-arm"] == "plain"

    def test_a_server_that_says_nothing(self, tmp_path):
        gate = threading.Event()
        with both(held(gate, []), tmp_path, idle_s=0.3) as router:
            response = router.ask(stream=False)
            gate.set()

        assert response.status_code == 504
        assert response.json()["error"]["type"] == "server_error"

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("end", ["cut", "reset"])
    @pytest.mark.parametrize("body", [STREAMED, UNCOUNTED], ids=["counted", "uncounted"])
    def test_a_stream_that_breaks_off_ends_without_an_end(self, tmp_path, mode, end, body):
        pieces = cut_inside(events(VLLM.chunks()), 3)
        # Where counts are taken out, half an event waits for its other half, or for the end.
        passed = pieces if mode == "off" or body is STREAMED else pieces[:3]
        seen, got = threading.Event(), b""
        with both(broken_off(pieces, seen, end), tmp_path, mode) as router:
            with (
                pytest.raises(httpx.RemoteProtocolError),
                router.client.stream("POST", CHAT_PATH, json=body) as response,
            ):
                for some in response.iter_raw():
                    got += some
                    if len(got) >= len(b"".join(passed)):
                        seen.set()

            assert got == b"".join(pieces)
            if mode != "off":
                settled = 2 if mode == "shadow" else 1
                errors = {row["error"].split(":")[0] for row in router.rows(settled=settled)}
                assert errors <= {"disconnected", "truncated"}

    def test_a_body_that_breaks_off_is_no_whole_one(self, tmp_path):
        head, body = json_reply(VLLM.body(pad="x" * 2_000_000))
        with (
            both([head, body[:-10]], tmp_path) as router,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            router.ask(stream=False)

    def test_a_small_body_that_breaks_off_is_told_as_such(self, tmp_path):
        head, body = json_reply(VLLM.body())
        with both([head, body[:-10]], tmp_path) as router:
            assert router.ask(stream=False).status_code == 502

    def test_an_answer_that_is_no_http(self, tmp_path):
        with both([b"SSH-2.0-OpenSSH_9.6\r\n"], tmp_path) as router:
            assert router.ask(stream=False).status_code == 502
