"""The parser of event streams, against the rules of the standard and every way to split bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.sse import Event, EventTooLargeError, SseParser


def parse(*pieces):
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def at_every_byte(stream):
    return parse(*(stream[i : i + 1] for i in range(len(stream))))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\n", [Event("a")], id="one event"),
        pytest.param(b"data:a\n\n", [Event("a")], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [Event(" a")], id="only one space is taken away"),
        pytest.param(b"data: a\ndata: b\n\n", [Event("a\nb")], id="several data lines"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [Event("a"), Event("b"), Event("c")],
                     id="CRLF, CR and LF in one stream"),
        pytest.param(b"data: a\r\n\ndata: b\r\n\r\n", [Event("a"), Event("b")], id="CRLF then LF"),
        pytest.param(b"data\n\n", [Event("")], id="a field without a colon has an empty value"),
        pytest.param(b"data:\ndata\n\n", [Event("\n")], id="two empty data lines"),
        pytest.param(b"\n\n\n", [], id="blank lines alone"),
        pytest.param(b": ping\n\ndata: a\n: ping\ndata: b\n\n", [Event("a\nb")],
                     id="a comment ends nothing and adds nothing"),
        pytest.param(b"event: error\ndata: a\n\ndata: b\n\n", [Event("a", "error"), Event("b")],
                     id="the type holds for one event"),
        pytest.param(b"event: error\n\ndata: b\n\n", [Event("b")], id="a type without data"),
        pytest.param(b"id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
                     [Event("a", id="7"), Event("b", id="7"), Event("c")],
                     id="the id stays until it is replaced"),
        pytest.param(b"id: 7\nid: 8\0\ndata: a\n\n", [Event("a", id="7")], id="id with a null"),
        pytest.param(b"Data: x\nfoo: y\ndata: a\n\n", [Event("a")], id="unknown fields"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [Event("a")], id="byte order mark"),
        pytest.param(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event("a")],
                     id="byte order mark in the middle belongs to the field's name"),
        pytest.param(b"data: a\xff\xe2\x82\n\n", [Event("a\ufffd\ufffd")], id="not UTF-8"),
        pytest.param("data: a\u2028b\x0bc\x85\n\n".encode(), [Event("a\u2028b\x0bc\x85")],
                     id="other line separators of Unicode are text"),
        pytest.param("data: né€😀\n\n".encode(), [Event("né€😀")], id="characters of 1 to 4 bytes"),
        pytest.param(b"data: a", [], id="cut inside a line"),
        pytest.param(b"data: a\n", [], id="cut before the blank line"),
    ],
)  # fmt: skip
class TestStandard:
    def test_in_one_piece(self, stream, expected):
        assert parse(stream) == expected

    def test_byte_by_byte(self, stream, expected):
        assert at_every_byte(stream) == expected

    def test_split_in_two_anywhere(self, stream, expected):
        for at in range(len(stream) + 1):
            assert parse(stream[:at], b"", stream[at:]) == expected


LINES = st.one_of(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=8).map(
        lambda text: text.encode()
    ),
    st.sampled_from([b"data", b"data: x", b"data:y", b"event: e", b"id: 1", b": c", b"", b"\xff"]),
)


@settings(deadline=None)
@given(
    lines=st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_splitting_changes_nothing(lines, cuts):
    stream = b"".join(line + end for line, end in lines)
    at = sorted(min(cut, len(stream)) for cut in cuts)
    pieces = [stream[i:j] for i, j in zip([0, *at], [*at, len(stream)], strict=True)]

    assert parse(*pieces) == parse(stream) == at_every_byte(stream)


@settings(deadline=None)
@given(
    events=st.lists(
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=20),
        max_size=6,
    ),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cut=st.integers(1, 7),
)
def test_what_is_written_is_read(events, end, cut):
    stream = "".join(
        "".join(f"data: {line}{end}" for line in text.split("\n")) + end for text in events
    ).encode()

    pieces = [stream[i : i + cut] for i in range(0, len(stream), cut)]

    assert [event.data for event in parse(*pieces)] == events


class TestTiming:
    def test_an_event_comes_out_with_its_last_byte(self):
        parser = SseParser()

        assert parser.feed(b"data: a\r\n\r") == [Event("a")]
        assert parser.feed(b"\ndata: b\r\n") == []
        assert parser.feed(b"\r") == [Event("b")]


class TestEnd:
    @pytest.mark.parametrize("stream", [b"", b"data: a\n\n", b": ping\n", b"event: x\n"])
    def test_a_whole_stream_leaves_nothing(self, stream):
        parser = SseParser()
        parser.feed(stream)

        assert parser.close() is None

    @pytest.mark.parametrize("stream", [b"data: {'a", b"data: {'a\n", b"data: {'a\r\n"])
    def test_what_was_cut_off_is_handed_over_apart(self, stream):
        parser = SseParser()

        assert parser.feed(stream) == []
        assert parser.close() == Event("{'a")
        assert parser.close() is None

    @pytest.mark.parametrize(
        ("data", "done"), [("[DONE]", True), (" [DONE] ", True), ("[done]", False), ("", False)]
    )
    def test_done(self, data, done):
        assert Event(data).done is done


class TestSideBand:
    def test_comments_are_counted_not_shown(self):
        parser = SseParser()

        assert parser.feed(b":\n\n: ping\n\n") == []
        assert parser.comments == 2

    @pytest.mark.parametrize(
        ("value", "expected"),
        [(b"1500", 1500), (b"1.5", None), (b"-1", None), ("٣".encode(), None), (b"9" * 9000, None)],
    )
    def test_retry(self, value, expected):
        parser = SseParser()
        parser.feed(b"retry: " + value + b"\n")

        assert parser.retry_ms == expected


class TestLimit:
    def test_a_line_without_end(self):
        parser = SseParser(max_event_bytes=100)
        parser.feed(b"data: " + b"a" * 94)

        with pytest.raises(EventTooLargeError, match="100 bytes"):
            parser.feed(b"a")

    def test_lines_without_end(self):
        parser = SseParser(max_event_bytes=100)

        with pytest.raises(EventTooLargeError):
            for _ in range(30):
                parser.feed(b"data: abc\n")

    def test_many_events_are_no_large_event(self):
        parser = SseParser(max_event_bytes=100)

        assert len(parser.feed(b"data: abc\n\n" * 1000)) == 1000
