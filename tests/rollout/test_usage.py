"""A server is asked for its counts, and a client that did not ask sees nothing of it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.rollout.usage import UsageFilter, with_usage
from tests.rollout.factories import DONE, JSON, STREAM, USAGE, delta, event

COUNTING_ALONG = delta("a", usage={"completion_tokens": 1})
WHOLE = delta("he") + b": ping\n\n" + USAGE + delta("y") + DONE
WITHOUT = delta("he") + b": ping\n\n" + delta("y") + DONE


@pytest.mark.parametrize(
    "raw",
    [b'{"stream": true, "messages": []}', b' \n{"stream":true}', b'{"stream":true,"x":"{"}'],
    ids=["plain", "space before", "a brace in a text"],
)
def test_counts_are_asked_for_and_no_other_byte_changes(raw):
    found = with_usage(raw, json.loads(raw))

    assert json.loads(found) == {
        **json.loads(raw), "stream_options": {"include_usage": True},
    }  # fmt: skip
    assert found.endswith(raw.lstrip()[1:])


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {"stream": False},
        {"stream": "true"},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": 5},
    ],
    ids=["none", "off", "odd", "asked", "wrong"],
)
def test_other_requests_stay_as_they_are(body):
    assert with_usage(json.dumps(body).encode(), body) is None


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False, "x": 1}], ids=str)
def test_options_of_the_client_are_kept(options):
    body = {"stream": True, "stream_options": options, "n": 1, "text": "ü"}
    found = json.loads(with_usage(json.dumps(body).encode(), body))

    assert found == {**body, "stream_options": {**(options or {}), "include_usage": True}}


@given(st.data())
def test_the_event_with_the_counts_is_left_out_however_the_bytes_were_cut(data):
    ends = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    whole, expected = WHOLE.replace(b"\n", ends), WITHOUT.replace(b"\n", ends)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    usage = UsageFilter()

    passed = [usage.feed(whole[a:b]) for a, b in itertools.pairwise([0, *cuts, len(whole)])]

    assert b"".join([*passed, usage.close()]) == expected


def test_an_event_passes_as_soon_as_it_is_whole():
    usage = UsageFilter()

    assert usage.feed(delta("a")[:-1]) == b""
    assert usage.feed(b"\n" + delta("b") + b"data: {") == delta("a") + delta("b")


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_streams_without_counts_pass_byte_for_byte(pieces):
    usage = UsageFilter()

    assert b"".join([*map(usage.feed, pieces), usage.close()]) == b"".join(pieces)


@pytest.mark.parametrize(
    "kept",
    [
        COUNTING_ALONG,
        event({"choices": [], "usage": None}),
        event({"choices": [], "prompt_token_ids": [1]}),
        event({"choices": [], "usage": {}, "error": "boom"}),
        event({"choices": [{"delta": {"content": '"usage" "choices": []'}}]}),
        b'data: {"choices": [], "usage": broken}\n\n',
    ],
    ids=["counting along", "null", "something else", "error", "text", "no JSON"],
)
def test_every_other_event_passes(kept):
    usage = UsageFilter()

    assert usage.feed(kept) == kept


def test_what_has_no_end_is_not_held_for_ever():
    usage = UsageFilter()
    large = b'data: {"choices": [], "usage": "' + b"x" * (1 << 17)

    passed = usage.feed(large)
    assert passed == large
    assert usage.feed(b'more"}\n') + usage.feed(b"\n") == b'more"}\n\n'
    assert usage.feed(USAGE + DONE) == DONE


def test_the_end_of_a_stream_that_breaks_off_passes():
    usage = UsageFilter()
    usage.feed(delta("a"))

    assert usage.feed(b'data: {"cho') == b""
    assert usage.close() == b'data: {"cho'
    usage.feed(USAGE.rstrip())
    assert usage.close() == b""


@pytest.mark.parametrize(
    ("status", "headers", "fits"),
    [(200, STREAM, True), (200, {k.lower(): v for k, v in STREAM.items()}, True),
     (200, JSON, False), (500, STREAM, False),
     (200, {**STREAM, "Content-Encoding": "gzip"}, False)],
    ids=["stream", "lower case", "json", "failed", "compressed"],
)  # fmt: skip
def test_only_plain_streams_are_filtered(status, headers, fits):
    assert UsageFilter.fits(status, headers) is fits
