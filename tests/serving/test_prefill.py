"""Prompts of newcomers are read in pieces, between the steps of those that are running."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode import SamplingParams
from specdecode.decoding.intake import make_requests
from specdecode.errors import NumericalError
from specdecode.serving import Scheduler
from specdecode.serving.replies import Reply
from tests.serving.servers import eventually, tiny_engine
from tests.serving.test_api import ASK, PROMPT, post
from tests.serving.test_faults import Fails, is_idle, send

CHUNK = 20
LONG_PROMPT = [2 + (7 * i) % 20 for i in range(150)]
NEWCOMER = {**ASK, "prompt": LONG_PROMPT, "max_tokens": 5}


def watched(server, monkeypatch):
    """What the engine's thread does: tokens of a prompt read, or "step"."""
    batch, done = server.scheduler._batch, []
    read, step = batch.read, batch.step

    def noted(most=None):
        before = batch.unread
        try:
            return read(most)
        finally:
            done.append(before - batch.unread)

    monkeypatch.setattr(batch, "read", noted)
    monkeypatch.setattr(batch, "step", lambda: done.append("step") or step())
    return done


def while_another_runs(server, body, pool):
    """Its answer, and that of a reply which was running before and has long to go."""
    batch, network = server.scheduler._batch, server.engine.target.network
    seconds, network.seconds = network.seconds, 0.2  # until the newcomer is there
    first = pool.submit(post, server, "/v1/completions", **{**ASK, "max_tokens": 150})
    eventually(lambda: len(batch.requests) == 1)
    with ThreadPoolExecutor(1) as other:
        second = other.submit(post, server, "/v1/completions", **body)
        eventually(lambda: batch.reading or second.done())
        network.seconds = seconds
        return second.result(), first


def test_running_replies_go_on_while_a_long_prompt_is_read(slow, monkeypatch):
    server = slow(0.01, draft="self-int8", slots=2, prefill_chunk=CHUNK, guard=False)
    alone = [post(server, "/v1/completions", **NEWCOMER).json()]
    alone.append(post(server, "/v1/completions", **{**ASK, "max_tokens": 150}).json())
    done = watched(server, monkeypatch)

    with ThreadPoolExecutor(1) as pool:
        answer, first = while_another_runs(server, NEWCOMER, pool)
        together = [answer.json(), first.result().json()]

    assert [a["choices"] for a in together] == [a["choices"] for a in alone]
    begun = done.index(CHUNK)
    assert done[begun : begun + 15] == [*[CHUNK, "step"] * 7, 10]


def test_no_step_is_kept_waiting_for_more_than_a_piece_of_prompts(slow, monkeypatch):
    """However many newcomers there are; equal prompts that stand side by side are read once."""
    server = slow(0.01, slots=6, prefill_chunk=CHUNK)
    done = watched(server, monkeypatch)
    words = ["dog", "mat", "red"]
    prompts = [f"{PROMPT} {word}" for word in words] + [f"{PROMPT} the"] * 2  # 7 tokens each

    with ThreadPoolExecutor(1) as pool:
        asked = {**ASK, "prompt": prompts, "max_tokens": 60}
        answer, first = while_another_runs(server, asked, pool)
        assert first.result().status_code == answer.status_code == 200

    begun = done.index(7)
    assert done[begun : begun + 7] == [7, 7, 6, "step", 1, 7, "step"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_in_the_middle_of_its_prompt_frees_its_slot(slow, stream):
    server = slow(0.02, slots=1, prefill_chunk=1)
    connection = send(server, {**NEWCOMER, "stream": stream})
    eventually(lambda: server.scheduler._batch.reading)

    connection.close()

    eventually(lambda: is_idle(server))
    assert server.engine.target.network.passes < len(LONG_PROMPT)
    assert server.scheduler.cache_tokens == 0


def test_a_deadline_that_passes_in_the_middle_of_a_prompt(slow):
    server = slow(0.02, slots=2, prefill_chunk=1, deadline_s=1.0)  # the prompt takes three

    assert post(server, "/v1/completions", **NEWCOMER).status_code == 504

    assert server.engine.target.network.passes < len(LONG_PROMPT)
    server.scheduler._deadline_s = 60.0  # that is another matter, and this machine may be slow
    assert post(server, "/v1/completions", **{**ASK, "max_tokens": 2}).status_code == 200


def test_a_prompt_that_fails_in_the_middle_ends_alone(slow):
    server = slow(0.01, slots=2, prefill_chunk=CHUNK)
    good = server.engine.target.network

    def when(tokens, starts):
        return starts == [3 * CHUNK] and tokens.shape[1] == CHUNK

    bad = Fails(good, NumericalError("NaN", 0), when)
    object.__setattr__(server.engine.target, "network", bad)

    with ThreadPoolExecutor(1) as pool:
        answer, first = while_another_runs(server, NEWCOMER, pool)

        assert answer.status_code == 500
        assert first.result().json()["usage"]["completion_tokens"] == 150


def test_a_server_that_is_told_to_stop_in_the_middle_of_a_prompt_finishes(slow):
    server = slow(0.02, slots=1, prefill_chunk=10)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, server, "/v1/completions", **NEWCOMER)
        eventually(lambda: server.scheduler._batch.reading)
        server.server.handle_exit(signal.SIGTERM, None)

        assert asked.result().json()["usage"]["completion_tokens"] == 5


def test_stopping_at_once_in_the_middle_of_a_prompt_tells_so(slow):
    server = slow(0.02, slots=1, prefill_chunk=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, server, "/v1/completions", **NEWCOMER)
        eventually(lambda: server.scheduler._batch.reading)
        assert server.scheduler.stop(finish=False, timeout_s=60)

        assert asked.result().status_code == 503


def test_replies_that_cannot_join_together_join_one_by_one(slow, monkeypatch):
    server = slow(0.0, slots=4)
    alone = post(server, "/v1/completions", **{**ASK, "n": 3}).json()["choices"]
    batch = server.scheduler._batch
    read, tried = batch.read, []

    def together(most=None):
        tried.append(len(batch.reading))
        if len(batch.reading) > 1:
            batch.leave([r for r, _ in read()])
            raise MemoryError
        return read(most)

    monkeypatch.setattr(batch, "read", together)
    again = post(server, "/v1/completions", **{**ASK, "n": 3}).json()["choices"]

    assert tried == [3, 1, 1, 1]
    assert again == alone
    text = httpx.get(server.url + "/metrics", timeout=60).text
    assert 'vllm:num_preemptions_total{engine="0",model_name="tiny"} 3.0' in text
    prompt_tokens = 'vllm:prompt_tokens_total{engine="0",model_name="tiny"} 36.0'
    assert prompt_tokens in text  # nothing counts twice


def test_one_that_goes_while_others_join_one_by_one(engine_folder, monkeypatch):
    engine = tiny_engine(engine_folder)
    scheduler = Scheduler(engine, slots=4, queue=8, prefill_chunk=64)
    params = SamplingParams(max_tokens=5, ignore_eos=True, n=3)
    told = [[], [], []]
    replies = [
        Reply(request, told[i].append, "none", 0.0)
        for i, request in enumerate(make_requests(engine.target, [[3, 4]], params))
    ]
    batch = scheduler._batch
    read, tried = batch.read, []

    def fails(most=None):
        tried.append(len(batch.reading))
        if len(batch.reading) > 1:
            batch.leave(batch.reading)
            scheduler.cancel(replies[1:2])
            raise MemoryError
        return read(most)

    monkeypatch.setattr(batch, "read", fails)
    scheduler.submit(replies)
    scheduler.start()
    assert scheduler.stop(finish=True, timeout_s=60)

    assert tried == [3, 1, 1]
    assert told[1] == []
    assert told[0][-1].result is not None
    assert told[2][-1].result is not None
    assert scheduler.running == scheduler.waiting == 0
