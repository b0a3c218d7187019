"""Which headers go where."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from specdecode.rollout.headers import is_stream, ours, to_client, to_server

CREDENTIALS = {"Authorization": "Bearer u", "Cookie": "a=b", "X-Api-Key": "u", "Api-Key": "u"}


def headers(*pairs, **named):
    return CIMultiDictProxy(CIMultiDict([*pairs, *named.items()]))


def sent(given, key=None, *, takes_credentials=False, readable=False):
    return to_server(given, key=key, takes_credentials=takes_credentials, readable=readable)


class TestToServer:
    def test_what_is_of_one_connection_stays_there(self):
        given = headers(
            ("Connection", "keep-alive, X-Mine"), ("Keep-Alive", "timeout=5"), ("X-Mine", "1"),
            ("Transfer-Encoding", "chunked"), ("Upgrade", "h2c"), ("TE", "trailers"),
            ("Host", "router"), ("Content-Length", "3"), ("X-Theirs", "2"),
        )  # fmt: skip

        assert dict(sent(given)) == {"X-Theirs": "2", "Accept-Encoding": "identity"}

    def test_the_baseline_gets_credentials_as_they_are(self):
        given = headers(*CREDENTIALS.items())

        assert CREDENTIALS.items() <= dict(sent(given, takes_credentials=True)).items()

    def test_the_candidate_gets_none(self):
        assert dict(sent(headers(*CREDENTIALS.items()))) == {"Accept-Encoding": "identity"}

    @pytest.mark.parametrize("takes", [True, False])
    def test_a_key_of_its_own_comes_in_their_place(self, takes):
        found = sent(headers(*CREDENTIALS.items()), "own", takes_credentials=takes)

        assert dict(found) == {"Authorization": "Bearer own", "Accept-Encoding": "identity"}

    def test_who_the_user_is_stays_with_the_router(self):
        given = headers(("X-Specdecode-User", "u"), ("x-specdecode-category", "code"))

        assert "x-specdecode-user" not in sent(given)
        assert sent(given)["x-specdecode-category"] == "code"

    def test_compression_is_what_the_client_asked_for(self):
        given = headers(("Accept-Encoding", "gzip, br"))

        assert sent(given).getall("Accept-Encoding") == ["gzip, br"]
        assert sent(given, readable=True).getall("Accept-Encoding") == ["identity"]

    def test_a_header_that_comes_twice_goes_twice(self):
        assert sent(headers(("X-A", "1"), ("X-A", "2"))).getall("X-A") == ["1", "2"]


class TestToClient:
    def test_a_server_cannot_speak_for_the_router(self):
        given = headers(("X-Specdecode-Arm", "block"), ("X-Specdecode-Retried", "candidate"))
        found = to_client(given, ours("r1", "plain"))

        assert found.getall("x-specdecode-arm") == ["plain"]
        assert "x-specdecode-retried" not in found

    def test_all_else_passes(self):
        given = headers(
            ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "9"),
            ("Connection", "close"), ("Transfer-Encoding", "chunked"),
        )  # fmt: skip
        found = to_client(given)

        assert found.getall("Set-Cookie") == ["a=1", "b=2"]
        assert found["Content-Length"] == "9"
        assert not {"connection", "transfer-encoding"} & {name.lower() for name in found}


@pytest.mark.parametrize(
    ("kind", "stream"),
    [("text/event-stream", True), ("Text/Event-Stream; charset=utf-8", True),
     ("application/json", False), ("", False)],
)  # fmt: skip
def test_what_is_a_stream(kind, stream):
    assert is_stream({"Content-Type": kind}) is stream


class TestText:
    """Header values are bytes, and some servers and clients still send other than ASCII."""

    def test_utf_8_stays(self):
        assert sent(headers(("X-A", "Grüße")))["X-A"] == "Grüße"

    def test_what_is_no_utf_8_can_still_be_written(self):
        given = headers(("X-A", b"Gr\xfc\xdfe".decode("utf-8", "surrogateescape")))

        assert sent(given)["X-A"] == to_client(given)["X-A"] == "Grüße"
