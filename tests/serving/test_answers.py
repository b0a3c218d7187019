"""Documents that need no server to be looked at."""

from __future__ import annotations

import json

import pytest

from specdecode.decoding import TokenLogprobs
from specdecode.serving.answers import Answer
from specdecode.serving.asks import Ask
from specdecode.serving.errors import ApiError
from specdecode.serving.settings import ServerSettings


def test_a_number_that_is_no_token_id_is_refused_however_long():
    body = {"prompt": "x", "logit_bias": {"9" * 5000: 1}}

    with pytest.raises(ApiError, match="no token id"):
        Ask.read(json.dumps(body).encode(), ServerSettings("m"), is_chat=False)


class Bytes:
    """A tokenizer of one byte a token."""

    def decode(self, tokens):
        return bytes(tokens).decode(errors="replace")


def test_bytes_of_a_token_that_is_half_a_character_are_not_made_up():
    body = {"messages": [{"role": "user", "content": "x"}], "logprobs": True}
    ask = Ask.read(json.dumps(body).encode(), ServerSettings("m"), is_chat=True)
    answer = Answer(ask, "id", "m", Bytes(), 0, "f")
    entries = [TokenLogprobs(token, -1.0, ()) for token in (97, *"é".encode())]

    piece = answer.piece(0, "aé", tokens=[], logprobs=entries, finish_reason=None, offset=0)

    told = piece["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in told] == [[97], None, None]
