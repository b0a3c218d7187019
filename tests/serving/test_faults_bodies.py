"""Bodies that are no request: whatever the bytes, an answer that is no fault of the server."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving.servers import serving, tiny_engine
from tests.serving.test_api import ASK, CHAT

PATHS = ("/v1/completions", "/v1/chat/completions")
MOST_TOKENS = 8
QUIET = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

WORDS = ("", "the", "\ud800", "\x00", "é", "𝔘", "<eos>", "9" * 5000, "-1", "²", "{{ 7 }}")
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 10**30, 1e-320, 1e-45, 1e308, 0.5, 2.0]),
    st.floats(allow_nan=True),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5), st.sampled_from(WORDS))
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*WORDS, "0", "3", "role", "content", "text"]), inner)
    ),
    max_leaves=6,
)
FIELDS = (
    *("model", "prompt", "messages", "max_tokens", "max_completion_tokens", "n", "best_of"),
    *("stop", "seed", "stream", "stream_options", "logprobs", "top_logprobs", "temperature"),
    *("top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"),
    *("logit_bias", "ignore_eos", "return_token_ids", "tools", "response_format", "user", "x"),
)
GOOD = {
    "max_tokens": st.integers(1, MOST_TOKENS),
    "n": st.integers(1, 3),
    "stop": st.lists(st.text(min_size=1, max_size=3), max_size=4),
    "seed": st.integers(0, 2**63 - 1),
    "stream": st.booleans(),
    "logprobs": st.integers(0, 20) | st.booleans(),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0, 1, exclude_min=True),
    "top_k": st.integers(-1, 2**70),
    "min_p": st.floats(0, 1),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.01, 100),
    "logit_bias": st.dictionaries(st.integers(0, 21).map(str), st.floats(-100, 100), max_size=4),
    "prompt": st.text(min_size=1, max_size=20) | st.lists(st.integers(0, 21), min_size=1),
}


@pytest.fixture(scope="module")
def server(engine_folder):
    limits = {"max_tokens": MOST_TOKENS, "max_prompt_tokens": 100, "queue": 512, "deadline_s": 60}
    with serving(tiny_engine(engine_folder), slots=4, max_body_bytes=20_000, **limits) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, timeout=60) as kept:
        yield kept


def answered(client, path, body: bytes) -> httpx.Response:
    """The answer to a body: no fault of the server, in the shape that was promised."""
    answer = client.post(path, content=body)
    assert answer.status_code in (200, 400, 404, 413), (answer.status_code, answer.text, body)
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert error["code"] == answer.status_code
        assert error["message"]
    elif answer.headers["content-type"].startswith("text/event-stream"):
        events = [line[6:] for line in answer.text.split("\n\n") if line]
        assert events[-1] == "[DONE]"
        assert not any("error" in json.loads(event) for event in events[:-1])
    else:
        assert answer.json()["choices"]
    return answer


def still_answers(client) -> None:
    assert client.post(PATHS[0], json={**ASK, "max_tokens": 2}).status_code == 200


@QUIET
@given(body=st.binary(max_size=300), path=st.sampled_from(PATHS))
def test_any_bytes_get_an_answer(client, body, path):
    answered(client, path, body)
    still_answers(client)


@QUIET
@given(value=VALUES, path=st.sampled_from(PATHS))
def test_any_json_gets_an_answer(client, value, path):
    answered(client, path, json.dumps(value).encode())
    still_answers(client)


@QUIET
@given(changes=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), chat=st.booleans())
def test_any_values_of_known_fields_get_an_answer(client, changes, chat):
    body = {**(CHAT if chat else ASK), "max_tokens": 2, **changes}
    answered(client, PATHS[chat], json.dumps(body).encode())
    still_answers(client)


@QUIET
@given(changes=st.fixed_dictionaries({}, optional=GOOD))
def test_any_values_in_range_together_get_an_answer(client, changes):
    answered(client, PATHS[0], json.dumps({**ASK, "max_tokens": 2, **changes}).encode())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt": "the", "logit_bias": {"%s": 1}}' % (b"9" * 5000),
        b'{"prompt": "\\ud800"}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "\\udfff", "content": "the"}]}',
        b'{"model": "\\ud800"}',
        b'{"prompt": "the", "stop": "\\ud800"}',
        b'{"prompt": "the", "seed": %s}' % (b"9" * 4000),
        b'{"prompt": "the", "seed": 18446744073709551616}',
        b'{"prompt": [%s]}' % (b"9" * 40),
        b'{"prompt": "the", "temperature": NaN}',
        b'{"prompt": "the", "temperature": 1e-320}',
        b'{"prompt": "the", "top_p": 1e-320}',
        b'{"prompt": "the", "top_k": 99999999999999999999}',
        b'{"prompt": "the", "logprobs": 20, "top_k": 1}',
        b'{"prompt": "the", "prompt": 1}',
        b'\xef\xbb\xbf{"prompt": "the"}',
        b'{"prompt": "the"}\x00',
        '{"prompt": "the"}'.encode("utf-16"),
        b'{"a":' * 3000,
        b'{"%s": 1}' % (b"x" * 19_000),
    ],
)
def test_bodies_that_break_parsers(client, path, body):
    answered(client, path, body)
    still_answers(client)
