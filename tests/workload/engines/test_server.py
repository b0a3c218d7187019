"""Asking over HTTP: every failure has its class, none is hidden, none takes others with it."""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest

from specdecode.errors import ConfigError
from specdecode.workload.engines import (
    AccessDeniedError,
    NotOfferedError,
    OverloadedError,
    ProtocolError,
    Server,
    ServerTimeoutError,
    StatusError,
    UnreachableError,
)
from specdecode.workload.engines import server as server_module
from specdecode.workload.engines.server import expect, root_of
from specdecode.workload.engines.unknown import Unknown
from tests.serving.servers import eventually
from tests.wire.replies import error_reply, json_reply, late_headers, reply, stream, text_reply
from tests.wire.server import Pause, Reset, WireServer
from tests.workload.engines.asking import ask

X = ("GET", "/x")
OK = json_reply({"a": 1})


def get(url, path="/x", **options):
    async def getting():
        async with Server(url, **options) as server:
            return expect(await server.get(path), server.base_url)

    return asyncio.run(getting())


def fails_with(kind, script, match=None, **options):
    with WireServer({X: script}) as server:
        with pytest.raises(kind, match=match) as caught:
            get(server.url, **options)
        eventually(lambda: server.requests)  # it may be slower than a client that gives up soon
    assert len(server.requests) == 1, "asked again behind the caller's back"
    return caught.value


class TestFailures:
    def test_nobody_listens(self):
        with WireServer({}) as server:
            url = server.url

        with pytest.raises(UnreachableError, match="check that it runs"):
            get(url)

    def test_headers_that_do_not_come(self):
        fails_with(ServerTimeoutError, late_headers(OK, 3600), "within 0.2 s", timeout_s=0.2)

    def test_a_body_that_drips_for_ever(self):
        drip = [OK[0], *[b"{", Pause(0.05)] * 40]

        fails_with(ServerTimeoutError, drip, timeout_s=0.3)

    def test_a_body_that_is_cut_off(self):
        fails_with(ProtocolError, [OK[0], OK[1][:3]], "broke off")

    def test_a_stream_that_is_cut_off(self):
        fails_with(ProtocolError, stream([b"data: 1\n\n"], end="cut"), "broke off")

    def test_a_connection_that_breaks(self):
        fails_with(ProtocolError, [OK[0], Reset()], "broke off")

    def test_what_is_not_http(self):
        fails_with(ProtocolError, [b"hello\r\n\r\n"], "broke")

    def test_an_answer_without_end(self, monkeypatch):
        monkeypatch.setattr(server_module, "MAX_BODY_BYTES", 1000)

        fails_with(ProtocolError, stream([b"x" * 300] * 9), "more than 1000 bytes")

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (401, AccessDeniedError),
            (404, NotOfferedError),
            (501, NotOfferedError),
            (429, OverloadedError),
            (503, OverloadedError),
            (500, StatusError),
            (307, StatusError),
        ],
    )
    def test_statuses(self, status, kind):
        error = fails_with(kind, error_reply(status, "because"), f"HTTP status {status}.*because")

        assert type(error) is kind
        assert error.status == status

    def test_429_says_how_long_to_wait(self):
        script = error_reply(429, "busy", {"Retry-After": "7"})

        assert fails_with(OverloadedError, script, "wait 7 s").retry_after_s == 7

    def test_a_redirect_is_not_followed(self):
        routes = {X: error_reply(307, "moved", {"Location": "/y"}), ("GET", "/y"): OK}
        with WireServer(routes) as server, pytest.raises(StatusError):
            get(server.url)

        assert server.asked("/y") == []


class TestAsk:
    def test_one_path_that_fails_takes_no_other_with_it(self):
        routes = {
            X: OK,
            ("GET", "/slow"): late_headers(OK, 3600),
            ("GET", "/cut"): [OK[0]],
            ("GET", "/html"): text_reply("<html>", kind="text/html"),
            ("GET", "/list"): json_reply([1]),
        }
        with WireServer(routes) as server:
            facts = ask(server.url, [*(path for _, path in routes), "/none"], timeout_s=3.0)

        assert facts.object("/x") == {"a": 1}
        assert "within 3 s" in facts.object("/slow").reason
        assert "broke off" in facts.object("/cut").reason
        assert "not answer in JSON" in facts.object("/html").reason
        assert "no object" in facts.object("/list").reason
        assert "404" in facts.object("/none").reason
        assert "not asked" in facts.object("/other").reason

    def test_metrics_that_are_none(self):
        with WireServer({("GET", "/metrics"): text_reply("<html>")}) as server:
            facts = ask(server.url, ["/metrics"])

        assert isinstance(facts.metrics, Unknown)

    def test_a_server_that_answers_nothing_is_an_error(self):
        with WireServer({X: [Reset()]}) as server, pytest.raises(ProtocolError):
            ask(server.url, ["/x"])

    def test_a_server_that_wants_a_key(self):
        def guarded(request):
            return (
                OK if request.headers.get("authorization") == "Bearer k" else error_reply(401, "no")
            )

        with WireServer({X: guarded}) as server:
            with pytest.raises(AccessDeniedError, match="API key"):
                ask(server.url, ["/x"])
            assert ask(server.url, ["/x"], api_key="k").object("/x") == {"a": 1}

    def test_a_key_is_never_shown(self):
        error = fails_with(AccessDeniedError, error_reply(401, "no"), api_key="hunter2")

        assert "hunter2" not in str(error)

    @pytest.mark.parametrize("key", ["hunter2\n", "hunter2\r\nX: y", "hünter2", "hunter 2", ""])
    def test_a_key_that_no_header_can_carry_is_refused_unseen(self, key):
        with WireServer({X: OK}) as server, pytest.raises(ConfigError, match="API key") as caught:
            ask(server.url, ["/x"], api_key=key)

        assert "hunter" not in str(caught.value)
        assert server.requests == []

    def test_proxies_and_credentials_of_the_environment_are_not_used(self, monkeypatch, tmp_path):
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password hunter2\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with WireServer({X: OK}) as server:
            assert ask(server.url, ["/x"]).object("/x") == {"a": 1}

        assert "authorization" not in server.requests[0].headers

    def test_an_answer_may_be_compressed(self):
        packed = gzip.compress(b'{"a": 1}')
        script = reply(packed, "application/json", headers={"Content-Encoding": "gzip"})
        with WireServer({X: script}) as server:
            assert ask(server.url, ["/x"]).object("/x") == {"a": 1}

    def test_one_that_unpacks_without_end_is_refused(self, monkeypatch):
        monkeypatch.setattr(server_module, "MAX_BODY_BYTES", 1000)
        packed = gzip.compress(b" " * 100_000)
        script = reply(packed, "application/json", headers={"Content-Encoding": "gzip"})

        fails_with(ProtocolError, script, "more than 1000 bytes")

    def test_one_that_does_not_unpack_is_no_answer(self):
        script = reply(b"plain", "application/json", headers={"Content-Encoding": "gzip"})

        fails_with(ProtocolError, script, "DecodingError")

    def test_paths_under_a_prefix(self):
        with WireServer({("GET", "/engine/x"): OK}) as server:
            assert ask(f"{server.url}/engine/v1/", ["/x"]).object("/x") == {"a": 1}

    def test_no_answer_may_be_damaged_json(self):
        deep = b"[" * 100_000
        with WireServer({X: reply(deep, "application/json")}) as server:
            assert isinstance(ask(server.url, ["/x"]).parsed("/x"), Unknown)


class TestConnections:
    def test_a_server_that_closes_idle_connections_without_a_word_is_no_failure(self):
        head = OK[0].replace(b"Connection: close", b"Connection: keep-alive")

        async def asking(url):
            async with Server(url) as server:
                return [(await server.get("/x")).ok for _ in range(5)]

        with WireServer({X: [head, OK[1], Pause(0.3)]}) as server:  # then it hangs up
            assert asyncio.run(asking(server.url)) == [True] * 5


class TestAddress:
    @pytest.mark.parametrize(
        "url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", " http://h:1/v1 "]
    )
    def test_with_and_without_v1(self, url):
        assert root_of(url) == "http://h:1"

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "h:1",
            "ftp://h",
            "http://",
            "http://u:p@h",
            "http://h?x=1",
            "http://h#x",
            "http://h:x",
        ],
    )
    def test_what_is_no_address(self, url):
        with pytest.raises(ConfigError):
            root_of(url)

    def test_credentials_in_an_address_are_not_repeated(self):
        with pytest.raises(ConfigError) as caught:
            root_of("http://u:hunter2@h")

        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_a_timeout_of_nothing(self, seconds):
        with pytest.raises(ConfigError):
            Server("http://h", timeout_s=seconds)


class TestTransport:
    def test_the_network_can_be_replaced(self):
        def answer(request):
            return httpx.Response(200, json={"path": request.url.path})

        facts = ask("http://h", ["/x"], transport=httpx.MockTransport(answer))

        assert facts.object("/x") == {"path": "/x"}

    @pytest.mark.parametrize(
        ("raised", "kind"),
        [
            (httpx.ConnectError, UnreachableError),
            (httpx.ConnectTimeout, ServerTimeoutError),
            (httpx.ReadTimeout, ServerTimeoutError),
            (httpx.WriteTimeout, ServerTimeoutError),
            (httpx.PoolTimeout, ServerTimeoutError),
            (httpx.ReadError, ProtocolError),
            (httpx.WriteError, ProtocolError),
            (httpx.CloseError, ProtocolError),
            (httpx.RemoteProtocolError, ProtocolError),
            (httpx.LocalProtocolError, ProtocolError),
            (httpx.ProxyError, ProtocolError),
            (httpx.UnsupportedProtocol, ProtocolError),
            (httpx.DecodingError, ProtocolError),
            (httpx.TooManyRedirects, ProtocolError),
        ],
    )
    def test_every_error_of_the_layer_below_has_a_class(self, raised, kind):
        def broken(request):
            raise raised("x")

        with pytest.raises(kind):
            get("http://h", transport=httpx.MockTransport(broken))

    def test_no_error_of_the_layer_below_is_forgotten(self):
        def leaves(kind):
            return (
                {kind}
                if not kind.__subclasses__()
                else {leaf for sub in kind.__subclasses__() for leaf in leaves(sub)}
            )

        tested = {
            "ConnectError",
            "ConnectTimeout",
            "ReadTimeout",
            "WriteTimeout",
            "PoolTimeout",
            "ReadError",
            "WriteError",
            "CloseError",
            "RemoteProtocolError",
            "LocalProtocolError",
            "ProxyError",
            "UnsupportedProtocol",
            "DecodingError",
            "TooManyRedirects",
        }

        assert {kind.__name__ for kind in leaves(httpx.RequestError)} == tested
