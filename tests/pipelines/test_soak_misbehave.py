from __future__ import annotations

import json

import pytest

from pipelines.soak.misbehave import _error_in

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def stream(*events):
    """As a server sends it: one HTTP chunk an event."""
    texts = [f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n".encode() for e in events]
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(text), text) for text in texts)


def test_a_token_that_reads_error_is_no_error():
    logprobs = {"tokens": ["error"], "top_logprobs": [{"error": -0.1}]}
    said = {"choices": [{"text": "error", "logprobs": logprobs}]}

    assert _error_in(stream(said, {"choices": [], "usage": {}}, "[DONE]")) is None


@pytest.mark.parametrize("before", [[], [{"choices": [{"text": "a"}]}]])
def test_an_error_inside_a_stream_is_one(before):
    error = {"error": {"message": "too late", "code": 504}}

    assert "too late" in _error_in(stream(*before, error, "[DONE]"))
