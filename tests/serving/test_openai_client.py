"""OpenAI's own client package, unmodified."""

from __future__ import annotations

import openai
import pytest

from tests.serving.servers import NAME, serving, tiny_engine
from tests.serving.test_api import PROMPT

MESSAGES = [{"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def client(engine_folder):
    with serving(tiny_engine(engine_folder), slots=2, queue=2, api_key="key") as running:
        yield openai.OpenAI(base_url=running.url + "/v1", api_key="key", max_retries=0)


def test_chat_whole_and_streamed(client):
    asked = {"model": NAME, "messages": MESSAGES, "max_completion_tokens": 10, "seed": 3}

    whole = client.chat.completions.create(**asked)
    stream = client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    )

    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens <= 10
    assert whole.system_fingerprint.startswith("specdecode-")


def test_completions_with_logprobs_and_several_replies(client):
    answer = client.completions.create(
        model=NAME, prompt=PROMPT, n=2, logprobs=3, max_tokens=8, seed=3, stop=["end"]
    )

    assert [c.index for c in answer.choices] == [0, 1]
    assert all(c.finish_reason in ("stop", "length") for c in answer.choices)
    assert all(len(top) == 3 for c in answer.choices for top in c.logprobs.top_logprobs)


def test_chat_logprobs(client):
    answer = client.chat.completions.create(
        model=NAME, messages=MESSAGES, max_tokens=5, logprobs=True, top_logprobs=2
    )

    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in content)


def test_models_and_errors(client):
    assert [m.id for m in client.models.list()] == [NAME]
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model=NAME, prompt=PROMPT, temperature=3)
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt=PROMPT)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
