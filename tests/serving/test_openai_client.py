"""OpenAI's own client package, unmodified, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import contextlib

import openai
import pytest

from tests.serving.servers import NAME, eventually, serving, tiny_engine
from tests.serving.test_api import PROMPT
from tests.serving.test_faults import is_idle, passes

MESSAGES = [{"role": "user", "content": PROMPT}]
CHAT = {"model": NAME, "messages": MESSAGES, "max_completion_tokens": 10, "seed": 3}
TEXT = {"model": NAME, "prompt": PROMPT, "max_tokens": 10, "seed": 3}
IGNORE_EOS = {"extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def keyed(engine_folder):
    with serving(tiny_engine(engine_folder), slots=4, api_key="key", guard=False) as running:
        yield running


@pytest.fixture(scope="module")
def client(keyed):
    with openai.OpenAI(base_url=keyed.url + "/v1", api_key="key", max_retries=0) as made:
        yield made


def of_slow(server, **options):
    given = {"api_key": "none", "max_retries": 0, **options}
    return openai.OpenAI(base_url=server.url + "/v1", **given)


def run(server, work):
    """Something asynchronous with a client of its own."""

    async def inside():
        made = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="key", max_retries=0)
        async with made:
            return await work(made)

    return asyncio.run(inside())


def test_chat_whole_and_streamed(client):
    whole = client.chat.completions.create(**CHAT)
    stream = client.chat.completions.create(
        **CHAT, stream=True, stream_options={"include_usage": True}
    )

    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == whole.choices[0].message.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == (
        whole.choices[0].finish_reason
    )
    assert chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens <= 10
    assert whole.system_fingerprint.startswith("specdecode-")
    assert {c.id for c in chunks} == {chunks[0].id}


def test_completions_whole_and_streamed(client):
    whole = client.completions.create(**TEXT)

    chunks = list(client.completions.create(**TEXT, stream=True))

    assert "".join(c.choices[0].text for c in chunks) == whole.choices[0].text
    assert whole.object == chunks[0].object == "text_completion"


def test_the_helper_that_collects_a_stream(client):
    words = client.chat.completions.create(**CHAT).choices[0].message.content.split()

    # It calls a reply that ran into its limit an error.
    with client.chat.completions.stream(**CHAT, stop=words[4]) as stream:
        final = stream.get_final_completion()

    text = final.choices[0].message.content
    assert text.split() == words[: words.index(words[4])]


def test_both_routes_asynchronously(keyed, client):
    async def ask(made):
        whole, text, stream = await asyncio.gather(
            made.chat.completions.create(**CHAT),
            made.completions.create(**TEXT),
            made.chat.completions.create(**CHAT, stream=True),
        )
        pieces = [c.choices[0].delta.content or "" async for c in stream]
        return whole, text, "".join(pieces)

    whole, text, streamed = run(keyed, ask)

    assert whole.choices[0].message.content == streamed
    assert streamed == client.chat.completions.create(**CHAT).choices[0].message.content
    assert text.choices[0].text == client.completions.create(**TEXT).choices[0].text


@pytest.mark.parametrize("stream", [False, True])
def test_several_replies(client, stream):
    answer = client.chat.completions.create(**CHAT, n=3, stream=stream)

    if stream:
        texts = {0: "", 1: "", 2: ""}
        for chunk in answer:
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        whole = client.chat.completions.create(**CHAT, n=3)
        assert texts == {c.index: c.message.content for c in whole.choices}
    else:
        assert [c.index for c in answer.choices] == [0, 1, 2]
        assert len({c.message.content for c in answer.choices}) > 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string(client, stream):
    words = client.completions.create(**TEXT, **IGNORE_EOS).choices[0].text.split()
    stop = words[4]

    answer = client.completions.create(**TEXT, **IGNORE_EOS, stop=[stop, "never"], stream=stream)

    choices = [c.choices[0] for c in answer] if stream else answer.choices
    text = "".join(c.text for c in choices)
    assert choices[-1].finish_reason == "stop"
    assert text.split() == words[: words.index(stop)]


def test_logprobs_of_completions(client):
    answer = client.completions.create(**TEXT, n=2, logprobs=3)

    for choice in answer.choices:
        told = choice.logprobs
        assert all(len(top) == 3 for top in told.top_logprobs)
        assert len(told.tokens) == len(told.token_logprobs) == len(told.text_offset)


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_of_chat(client, stream):
    answer = client.chat.completions.create(**CHAT, logprobs=True, top_logprobs=2, stream=stream)

    parts = [c.choices[0] for c in answer] if stream else answer.choices
    content = [entry for part in parts if part.logprobs for entry in part.logprobs.content]
    whole = client.chat.completions.create(**CHAT)
    assert len(content) == whole.usage.completion_tokens
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in content)


def test_models(client):
    assert [m.id for m in client.models.list()] == [NAME]


def test_errors_are_those_the_client_knows(client):
    with pytest.raises(openai.BadRequestError, match="temperature") as refused:
        client.completions.create(**TEXT, temperature=3)
    assert refused.value.param == "temperature"
    assert refused.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="tools"):
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        client.chat.completions.create(**CHAT, tools=[tool])
    with pytest.raises(openai.NotFoundError):
        client.completions.create(**{**TEXT, "model": "other"})
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


def test_an_error_in_the_middle_of_a_stream_is_raised(slow):
    server = slow(deadline_s=1.0, slots=1)
    with of_slow(server) as client, pytest.raises(openai.APIError, match="deadline"):
        list(client.completions.create(**{**TEXT, "max_tokens": 200}, **IGNORE_EOS, stream=True))


def test_a_full_queue_is_a_rate_limit_and_is_tried_again(slow):
    server = slow(0.2, slots=1, queue=1)  # at first: the queue is to stay full
    long = {**TEXT, "max_tokens": 60, **IGNORE_EOS}

    async def crowd(made):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(
                    await made.completions.create(**long, stream=True)
                    if server.scheduler.running == 0
                    else _later(made, long)
                )
            while server.scheduler.waiting == 0:
                await asyncio.sleep(0.01)
            with pytest.raises(openai.RateLimitError) as refused:
                await made.completions.create(**TEXT)
            assert int(refused.value.response.headers["retry-after"]) >= 1
            server.engine.target.network.seconds = 0.01
            patient = made.with_options(max_retries=30)
            return await patient.completions.create(**TEXT)

    assert run(server, crowd).choices


@contextlib.asynccontextmanager
async def _later(made, body):
    """A request that waits for its first token meanwhile."""
    task = asyncio.create_task(made.completions.create(**body))
    try:
        yield
    finally:
        await task


def test_a_client_that_loses_patience_frees_its_slot(slow):
    server = slow(0.05, slots=1)
    with of_slow(server, timeout=0.5) as client, pytest.raises(openai.APITimeoutError):
        client.completions.create(**{**TEXT, "max_tokens": 200}, **IGNORE_EOS)

    eventually(lambda: is_idle(server))
    assert passes(server) < 150


def test_a_stream_that_is_closed_frees_its_slot(slow):
    server = slow(0.05, slots=1)
    with of_slow(server) as client:
        stream = client.completions.create(**{**TEXT, "max_tokens": 200}, **IGNORE_EOS, stream=True)
        next(iter(stream))
        stream.close()

        eventually(lambda: is_idle(server))
    assert passes(server) < 150


def test_a_task_that_is_cancelled_frees_its_slot(slow):
    server = slow(0.05, slots=1)

    async def give_up(made):
        body = {**TEXT, "max_tokens": 200, **IGNORE_EOS}
        task = asyncio.create_task(made.completions.create(**body))
        while server.scheduler.running == 0:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(server, give_up)
    eventually(lambda: is_idle(server))
    assert passes(server) < 150
