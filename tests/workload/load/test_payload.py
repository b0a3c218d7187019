"""One event of a stream, whichever API and engine sent it."""

from __future__ import annotations

import json

import pytest

from specdecode.workload.load.faults import MALFORMED, STREAM_ERROR, Fault
from specdecode.workload.load.payload import count, read_payload


def read(**event):
    return read_payload(json.dumps(event))


@pytest.mark.parametrize(
    ("choice", "text", "output"),
    [
        ({"text": "a"}, "a", True),
        ({"text": ""}, "", False),
        ({"delta": {"content": "b"}}, "b", True),
        ({"delta": {"role": "assistant", "content": ""}}, "", False),
        ({"delta": {"reasoning_content": "hm"}}, "", True),
        ({"delta": {"tool_calls": [{"index": 0}]}}, "", True),
        ({"delta": {}, "finish_reason": "stop"}, "", False),
        ({"delta": {}, "token_ids": [5]}, "", True),
        ({"delta": {"content": None}}, "", False),
    ],
)
def test_what_counts_as_output(choice, text, output):
    found = read(choices=[choice])
    assert (found.text, found.output) == (text, output)


def test_the_usage_event_has_no_choices_and_is_no_output():
    found = read(choices=[], usage={"completion_tokens": 5})
    assert not found.output
    assert count(found.usage, "completion_tokens") == 5


@pytest.mark.parametrize("value", [None, -1, True, 1.5, "3"])
def test_a_count_that_is_none_stays_unknown(value):
    assert count({"completion_tokens": value}, "completion_tokens") is None


def test_tokens_are_counted_only_where_the_server_tells_them():
    assert read(choices=[{"text": "three words here"}]).tokens is None
    assert read(choices=[{"text": "x", "token_ids": [1, 2]}]).tokens == 2
    assert read(choices=[{"text": "x", "logprobs": {"tokens": ["a", "b", "c"]}}]).tokens == 3
    assert read(choices=[{"delta": {"content": "x"}, "logprobs": {"content": [{}]}}]).tokens == 1


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [{"delta": {"role": "assistant"}}], "prompt_token_ids": [3, 4]},  # chat
        {"choices": [{"text": "x", "token_ids": [9], "prompt_token_ids": [3, 4]}]},  # completions
    ],
)
def test_ids_of_the_prompt_are_where_vllm_puts_them(event):
    assert read(**event).prompt_token_ids == [3, 4]


def test_other_replies_to_the_same_request_are_not_mixed_in():
    assert read(choices=[{"index": 1, "text": "other"}, {"index": 0, "text": "own"}]).text == "own"


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"message": "boom", "code": 500}},
        {"error": "boom"},
        {"object": "error", "message": "boom"},
        {"choices": [{"text": "", "finish_reason": "error"}]},
    ],
)
def test_an_error_inside_the_stream_is_an_error(event):
    with pytest.raises(Fault) as found:
        read(**event)
    assert found.value.kind == STREAM_ERROR


@pytest.mark.parametrize("data", ["", "{", "[]", '"x"', '{"choices": 3}', '{"choices": [3]}'])
def test_what_is_not_of_the_api_is_malformed(data):
    with pytest.raises(Fault) as found:
        read_payload(data)
    assert found.value.kind == MALFORMED
