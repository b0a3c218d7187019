"""What is read of a reply that passes: its times, its counts, and whether it is whole."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.rollout.observation import REFUSALS, ReplyWatch
from tests.rollout.factories import (
    COUNTS,
    DONE,
    END,
    JSON,
    STREAM,
    USAGE,
    delta,
    event,
    watched,
)

ROLE = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
BODY = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hello"},
            "finish_reason": "stop",
            "token_ids": [4, 5, 6, 7, 8],
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    "metrics": COUNTS,
    "system_fingerprint": "fp",
}


def test_a_stream_is_timed_by_its_output_and_counted_by_the_server():
    watch = watched(ROLE, delta("hel"), delta("lo"), END)

    assert watch.error is None
    assert watch.ttft_s == pytest.approx(3.0)  # the role alone is no output
    assert watch.e2e_s == pytest.approx(5.0)
    assert watch.tpot_s == pytest.approx(2.0 / 4)
    assert (watch.prompt_tokens, watch.output_tokens) == (3, 5)
    assert watch.finish_reason == "stop"
    assert watch.acceptance == {
        "steps": 2, "drafted": 8, "accepted": 3, "acceptance_histogram": [0, 1, 1, 0, 0],
    }  # fmt: skip
    assert watch.text == "hello"
    assert watch.chars == 5


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_how_the_bytes_were_cut_on_the_way_makes_no_difference(data):
    whole = ROLE + delta("hé\u2028") + b": ping\r\n\r\n" + delta("🙂o") + END
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    places = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(places)]

    watch, once = watched(*pieces), watched(whole)

    assert watch.error is None
    for name in ("text_sha256", "chars", "output_tokens", "finish_reason", "acceptance"):
        assert getattr(watch, name) == getattr(once, name)


def test_text_has_one_hash_whether_it_was_streamed_or_not():
    whole = watched(json.dumps(BODY).encode(), headers=JSON, streaming=False)
    streamed = watched(delta("he"), delta("llo"), END)

    assert whole.error is None
    assert whole.text_sha256 == streamed.text_sha256
    assert streamed.text_sha256 != watched(delta("hella"), END).text_sha256


def test_a_reply_that_does_not_stream_has_no_first_token():
    watch = watched(json.dumps(BODY).encode(), headers=JSON, streaming=False, keep_ids=True)

    assert (watch.ttft_s, watch.tpot_s) == (None, None)
    assert watch.e2e_s == pytest.approx(2.0)
    assert watch.output_tokens == 5
    assert watch.token_ids == [4, 5, 6, 7, 8]
    assert watch.acceptance["accepted"] == 3
    assert watch.system_fingerprint == "fp"


def test_token_ids_are_kept_only_if_wanted():
    chunk = delta("hello", token_ids=[4, 5, 6, 7, 8])

    assert watched(chunk, END).token_ids is None
    assert watched(chunk, END, keep_ids=True).token_ids == [4, 5, 6, 7, 8]


def test_token_ids_of_many_events_are_gathered_and_not_copied_each_time():
    watch = ReplyWatch(started=10.0, streaming=True, keep_ids=True)
    watch.headers(200, STREAM, 11.0)
    watch.chunk(delta("a", token_ids=[1]), 12.0)
    kept = watch.token_ids
    for number in range(2, 5):
        watch.chunk(delta("a", token_ids=[number]), 10.0 + number)

    assert watch.token_ids is kept
    assert kept == [1, 2, 3, 4]


def test_tokens_are_unknown_where_the_server_does_not_count_them():
    end = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    watch = watched(delta("a"), delta("b"), end, DONE)

    assert watch.error is None
    assert (watch.output_tokens, watch.tpot_s) == (None, None)
    assert watch.e2e_s is not None
    assert watch.acceptance == {}


def test_reasoning_and_tool_calls_are_output_too():
    call = {"index": 0, "id": "random", "function": {"name": "f", "arguments": "{}"}}
    tools = event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    same = event({"choices": [{"index": 0, "delta": {"tool_calls": [{**call, "id": "x"}]}}]})
    other = {**call, "function": {"name": "g", "arguments": "{}"}}
    differs = event({"choices": [{"index": 0, "delta": {"tool_calls": [other]}}]})

    assert watched(tools, END).ttft_s is not None
    assert watched(tools, END).text_sha256 == watched(same, END).text_sha256
    assert watched(tools, END).text_sha256 != watched(differs, END).text_sha256


FAILURES = {
    "error in the stream": ((delta("a"), event({"error": {"message": "boom"}}), DONE), {},
                            "stream-error: boom"),
    "no end": ((delta("a"),), {}, "no-done"),
    "cut inside an event": ((delta("a"), b'data: {"cho'), {}, "truncated"),
    "nothing": ((DONE,), {}, "empty"),
    "no reply at all": ((), {}, "no-done"),
    "not JSON": ((b"data: {my secret text}\n\n", DONE), {}, "malformed"),
    "HTTP 503": ((b'{"error": {"message": "no room"}}',), {"status": 503, "headers": JSON},
                 "http-5xx: HTTP 503: no room"),
    "HTTP 429": ((b"slow down",), {"status": 429}, "http-429: HTTP 429"),
    "HTTP 302": ((), {"status": 302}, "http-other"),
    "not a stream": ((b"{}",), {"headers": JSON}, "not-a-stream"),
    "connection gone": ((delta("a"),), {"error": "disconnected: reset"}, "disconnected: reset"),
    "aborted by the engine": (
        (event({"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]}), DONE), {},
        "stream-error"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_reply_that_is_not_whole_is_an_error_without_latencies(name):
    chunks, options, error = FAILURES[name]
    watch = watched(*chunks, **options)

    assert watch.error.startswith(error)
    assert (watch.e2e_s, watch.tpot_s) == (None, None)
    assert not watch.cancelled
    assert not watch.refused


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"choices": [', "malformed"),
        (b"", "malformed"),
        (b"[]", "malformed"),
        (b'{"choices": []}', "empty"),
        (b'{"error": {"message": "boom"}}', "stream-error: boom"),
        (b'{"choices": [{"finish_reason": "error"}]}', "stream-error"),
    ],
    ids=["cut", "nothing", "a list", "no choice", "error", "failed"],
)
def test_a_body_that_is_no_reply_is_an_error(body, error):
    watch = watched(body, headers=JSON, streaming=False)

    assert watch.error.startswith(error)


def test_what_a_reply_says_is_not_in_its_error():
    secret = "my secret text"  # noqa: S105 - of a reply
    for watch in (
        watched(f'data: {{"a": {secret}\n\n'.encode(), DONE),
        watched(delta("a"), f'data: {{"choices": "{secret}'.encode()),
        watched(f'{{"choices": "{secret}"'.encode(), headers=JSON, streaming=False),
    ):
        assert watch.error is not None
        assert "secret" not in watch.error


def test_personal_data_in_what_a_server_says_is_not_kept():
    body = json.dumps({"error": {"message": "no quota left for jane.doe@company.com"}}).encode()

    assert watched(body, status=503, headers=JSON).error == (
        "http-5xx: HTTP 503: no quota left for [email]"
    )


def test_an_error_after_the_end_changes_nothing():
    watch = watched(delta("a"), END, error="disconnected: late")

    assert watch.error is None
    assert watched(delta("a"), END, event({"error": "late"})).error is None


def test_a_client_that_leaves_is_no_failure_of_the_arm():
    early = watched(delta("a"), error="cancelled: the client left")
    late = watched(delta("a"), END, error="cancelled: the client left")

    assert early.cancelled
    assert early.e2e_s is None
    assert not late.cancelled
    assert late.error is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 422])
def test_a_refused_request_is_told_from_a_failure(status):
    watch = watched(b'{"error": {"message": "bad"}}', status=status, headers=JSON)

    assert status in REFUSALS
    assert watch.refused
    assert watch.error == f"http-4xx: HTTP {status}: bad"


@pytest.mark.parametrize("status", [302, 408, 409, 425, 429, 499, 500, 503])
def test_other_statuses_are_failures(status):
    assert not watched(status=status).refused


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_replies_are_read(coding):
    whole = delta("hello") + END
    packed = gzip.compress(whole) if coding == "gzip" else zlib.compress(whole)
    watch = watched(packed[:20], packed[20:], headers={**STREAM, "Content-Encoding": coding})

    assert watch.error is None
    assert (watch.text, watch.output_tokens) == ("hello", 5)


def test_a_coding_that_is_not_known_leaves_numbers_unknown_and_is_no_failure():
    packed = {**JSON, "Content-Encoding": "zstd"}
    whole = watched(b"\x28\xb5\x2f\xfd", headers=packed, streaming=False)
    streamed = watched(b"\x28\xb5\x2f\xfd", headers={**STREAM, "Content-Encoding": "br"})

    for watch in (whole, streamed):
        assert watch.error is None
        assert watch.output_tokens is None
    assert whole.e2e_s is not None


def test_a_reply_that_is_not_compressed_as_it_says_is_a_failure():
    watch = watched(delta("hello") + END, headers={**STREAM, "Content-Encoding": "gzip"})

    assert watch.error.startswith("malformed")


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(b"0" * (64 << 20))
    watch = watched(bomb, headers={**JSON, "Content-Encoding": "gzip"}, streaming=False)

    assert watch.output_tokens is None


def test_a_body_too_large_to_read_is_passed_on_with_numbers_unknown():
    watch = ReplyWatch(started=0.0, streaming=False)
    watch.headers(200, JSON, 1.0)
    for _ in range(20):
        watch.chunk(b" " * (1 << 20), 2.0)
    watch.ended(3.0)

    assert watch.error is None
    assert (watch.output_tokens, watch.e2e_s) == (None, 2.0)


@given(st.lists(st.binary(max_size=200), max_size=6), st.booleans(), st.sampled_from([200, 500]))
@settings(max_examples=200, deadline=None)
def test_nothing_that_a_server_sends_raises(chunks, streaming, status):
    kind = STREAM if streaming else JSON
    watch = watched(*chunks, headers=kind, status=status, streaming=streaming)

    assert watch.error is None or ":" in watch.error or watch.error
    assert isinstance(watch.acceptance, dict)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "delta", "content", "usage", "completion_tokens", "index",
                         "error", "metrics", "speculative_decoding", "finish_reason", "message",
                         "tool_calls", "function", "token_ids", "meta_info", "timings"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(ODD, st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_json_that_a_server_sends_raises(value, streaming):
    text = json.dumps(value).encode()
    chunks = (b"data: " + text + b"\n\n", DONE) if streaming else (text,)
    watch = watched(*chunks, headers=STREAM if streaming else JSON, streaming=streaming)

    watch.acceptance, watch.output_tokens, watch.tpot_s, watch.error  # noqa: B018 - may not raise


def test_usage_of_a_stream_that_failed_is_still_told():
    watch = watched(delta("a"), USAGE, event({"error": "boom"}), DONE)

    assert watch.error == "stream-error: boom"
    assert watch.prompt_tokens == 3
