"""The wire server puts on the wire what it was told, and the parser of streams reads it."""

from __future__ import annotations

import json
import time
from functools import cache

import httpx
import pytest

from specdecode.workload.engines import ENGINES, error_of
from specdecode.workload.sse import SseParser
from tests.wire.engines import ALL, CHAT, TEXTS, USAGE, VLLM
from tests.wire.metrics import STEPS
from tests.wire.replies import (
    cut_inside,
    error_reply,
    event,
    events,
    every,
    json_reply,
    late_headers,
    stream,
    with_comments,
)
from tests.wire.server import Pause, WireServer, in_turn

REPLY = "".join(TEXTS)


@cache
def client():
    """One for all tests: making one reads every certificate of the machine."""
    return httpx.Client(timeout=60)


class Read:
    """What a plain client sees of a stream."""

    def __init__(self, script):
        self.payloads, self.done, self.broke, self.cut_off = [], False, None, None
        self.parser = SseParser()
        with WireServer({CHAT: script}) as server:
            try:
                self._read(server.url)
            except httpx.HTTPError as error:
                self.broke = type(error)
        self.cut_off = self.parser.close()

    def _read(self, url):
        body = {"stream": True, "stream_options": {"include_usage": True}}
        with client().stream("POST", url + CHAT[1], json=body, timeout=60) as response:
            self.status = response.status_code
            for some in response.iter_raw():
                for found in self.parser.feed(some):
                    if found.done:
                        self.done = True
                    else:
                        self.payloads.append(json.loads(found.data))

    @property
    def text(self):
        choices = [c for p in self.payloads for c in p.get("choices", ())]
        return "".join(c["delta"].get("content", "") for c in choices)

    @property
    def usage(self):
        return next((p["usage"] for p in self.payloads if p.get("usage")), None)


WIRES = [pytest.param(w, id=w.name) for w in ALL]


class TestWhole:
    @pytest.mark.parametrize("wire", WIRES)
    def test_every_engine_streams(self, wire):
        read = Read(stream(events(wire.chunks())))

        assert (read.text, read.usage, read.done, read.broke) == (REPLY, USAGE, True, None)
        assert read.payloads[-1]["choices"] == []

    @pytest.mark.parametrize("wire", WIRES)
    def test_every_engine_answers_at_once(self, wire):
        with WireServer(wire.routes()) as server:
            body = client().post(server.url + CHAT[1], json={"stream": False}).json()

        assert body["choices"][0]["message"]["content"] == REPLY

    @pytest.mark.parametrize("wire", [w for w in ALL if w.name in ("vllm", "sglang", "llama.cpp")])
    def test_counts_of_drafting_ride_on_the_stream(self, wire):
        read = Read(stream(every(5, events(wire.chunks()))))

        assert ENGINES[wire.name].of_reply(read.payloads).steps == STEPS

    @pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("space", [True, False])
    @pytest.mark.parametrize("size", [1, 3, 7, 100_000])
    def test_line_ends_and_cuts_change_nothing(self, newline, space, size):
        pieces = every(size, events(VLLM.chunks(), newline=newline, space=space))

        assert Read(stream(pieces)).text == REPLY

    def test_characters_are_cut_between_chunks(self):
        pieces = every(1, events(VLLM.chunks()))

        assert any(piece[0] >= 0x80 for piece in pieces)
        assert Read(stream(pieces)).text == REPLY

    def test_comments_keep_a_connection_open(self):
        read = Read(stream(with_comments(events(VLLM.chunks()))))

        assert (read.text, read.parser.comments) == (REPLY, len(events(VLLM.chunks())))

    def test_an_event_of_several_lines(self):
        read = Read(stream([event(json.dumps(VLLM.chunks()[1], indent=1)), event("[DONE]")]))

        assert read.text == TEXTS[0]


class TestFaults:
    def test_an_error_inside_a_stream_of_status_200(self):
        failed = {
            "error": {"message": "CUDA out of memory", "type": "InternalServerError", "code": 500}
        }
        read = Read(stream(events([*VLLM.chunks()[:3], failed])))

        assert (read.status, read.done) == (200, True)
        assert error_of(read.payloads[-1]) == "InternalServerError: CUDA out of memory"

    def test_an_error_as_a_field_that_the_standard_ignores(self):
        read = Read(stream([*events(VLLM.chunks()[:3], done=False), b'error: {"code":500}\n\n']))

        assert (len(read.payloads), read.done) == (3, False)

    def test_the_mark_of_the_end_is_missing(self):
        read = Read(stream(events(VLLM.chunks(), done=False)))

        assert (read.text, read.done, read.broke) == (REPLY, False, None)

    def test_usage_is_null(self):
        assert Read(stream(events(VLLM.chunks(usage=None)))).usage is None

    def test_no_chunk_says_why_the_reply_ended(self):
        read = Read(stream(events(VLLM.chunks(finish_reason=None))))
        reasons = {c["finish_reason"] for p in read.payloads for c in p["choices"]}

        assert (reasons, read.done) == ({None}, True)

    def test_a_stream_that_is_cut_in_the_middle_of_an_event(self):
        read = Read(stream(cut_inside(events(VLLM.chunks()), 3), end="cut"))

        assert len(read.payloads) == 3
        assert read.broke is httpx.RemoteProtocolError
        assert read.cut_off is not None

    def test_a_stream_that_ends_properly_in_the_middle_of_an_event(self):
        read = Read(stream(cut_inside(events(VLLM.chunks()), 3)))

        assert (read.broke, read.done) == (None, False)
        assert read.cut_off is not None

    def test_a_connection_that_breaks(self):
        read = Read(stream(events(VLLM.chunks())[:3], end="reset"))

        assert issubclass(read.broke, httpx.NetworkError | httpx.RemoteProtocolError)

    def test_headers_that_are_late(self):
        late = WireServer({CHAT: late_headers(json_reply({}), 3600)})
        with late as server, pytest.raises(httpx.ReadTimeout):
            client().post(server.url + CHAT[1], json={}, timeout=0.2)

    def test_too_many_requests(self):
        with WireServer({CHAT: error_reply(429, "queue full", {"Retry-After": "2"})}) as server:
            response = client().post(server.url + CHAT[1], json={})

        assert (response.status_code, response.headers["retry-after"]) == (429, "2")


class TestServer:
    def test_a_client_that_leaves_is_noticed(self):
        with WireServer({CHAT: stream([b": ping\n\n"] * 2000, delay_s=0.01)}) as server:
            with client().stream("POST", server.url + CHAT[1], json={}) as response:
                next(response.iter_raw())
            until = time.monotonic() + 60
            while not server.gone and time.monotonic() < until:
                time.sleep(0.01)

        assert server.gone == 1

    def test_what_clients_sent_is_kept(self):
        with WireServer(VLLM.routes()) as server:
            client().post(
                server.url + CHAT[1], json={"stream": False, "n": 1}, headers={"X-A": "b"}
            )
            [request] = server.asked(CHAT[1])

        assert (request.json["n"], request.headers["x-a"]) == (1, "b")

    def test_scripts_in_turn(self):
        turns = in_turn(json_reply(1), json_reply(2))
        with WireServer({("GET", "/"): turns}) as server:
            assert [client().get(server.url).json() for _ in range(3)] == [1, 2, 2]

    def test_leaving_ends_scripts_that_would_last(self):
        with WireServer({("GET", "/"): [Pause(3600)]}) as server, pytest.raises(httpx.ReadTimeout):
            client().get(server.url, timeout=0.1)
