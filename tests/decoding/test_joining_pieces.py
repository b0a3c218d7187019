"""A prompt is read in pieces between the steps of others, and nobody's reply can tell."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import Engine, SamplingParams
from specdecode.decoding.intake import make_requests
from specdecode.errors import ConfigError, OutOfMemoryError
from specdecode.models import load_model
from tests.decoding.joins import (
    DRAFTERS,
    PROMPT,
    REQUESTS,
    FailsOnce,
    alone,
    facts,
    requests_of,
    toy_engine,
)
from tests.tiny_models import write_tiny_model


@settings(deadline=None, max_examples=60)
@given(
    drafter=st.sampled_from(sorted(DRAFTERS)),
    pieces=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    order=st.permutations(range(len(REQUESTS))),
    leaves=st.dictionaries(st.integers(0, 5), st.integers(0, 20), max_size=3),
    draft_reads=st.lists(st.booleans(), min_size=1, max_size=3),
)
def test_a_prompt_can_be_read_in_pieces_between_the_steps_of_others(
    drafter, pieces, order, leaves, draft_reads
):
    """Whatever the pieces, and whoever leaves, be it in the middle of a prompt.

    Nor does it matter when the draft reads it.
    """
    tool = toy_engine(drafter)
    batch = tool.open(slots=len(REQUESTS))
    requests = dict(zip(order, requests_of(tool, *order), strict=True))
    coming, step = list(order), 0
    sizes, reads = itertools.cycle(pieces), itertools.cycle(draft_reads)
    while coming or batch.reading or batch.requests:
        if coming and not batch.reading:
            batch.start([requests[i] for i in coming[:2]], draft_reads=next(reads))
            coming = coming[2:]
        batch.leave([requests[i] for i, at in leaves.items() if at == step])
        batch.read(next(sizes))
        batch.step()
        step += 1

    for index, request in requests.items():
        tokens, *_ = expected = alone(toy_engine(drafter), index)
        if request.finish_reason is None:
            assert index in leaves
            assert tuple(request.output) == tokens[: len(request.output)]
        else:
            assert facts(tool, request) == expected


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("draft", [None, "self-int8"])
def test_a_long_prompt_read_in_pieces_in_float32(tmp_path, kind, draft):
    """The newcomer and its neighbour get what they get where prompts are read at once."""
    target = load_model(write_tiny_model(tmp_path, kind), device="cpu", dtype="float32")
    prompts = [[2, 3, 4], [(7 * i) % 20 + 2 for i in range(150)]]
    params = SamplingParams(max_tokens=60, seed=5, ignore_eos=True)
    expected = [Engine.load(target, draft).generate([p], params)[0].token_ids for p in prompts]
    tool = Engine.load(target, draft)
    batch = tool.open(slots=2)
    first, second = make_requests(target, prompts, params)
    batch.join([first])

    batch.start([second])
    unread = []
    while batch.reading:
        unread.append(batch.unread)
        assert batch.free == 0
        batch.read(40)
        batch.step()
    assert batch.requests == (first, second)
    while batch.requests:
        batch.step()

    assert unread == [150, 110, 70, 30]
    assert [tuple(r.output) for r in (first, second)] == expected


def test_a_batch_that_becomes_empty_while_a_prompt_is_read_begins_anew():
    tool = toy_engine("own-cache")
    batch = tool.open(slots=2)
    first, second = requests_of(tool, 4, 3)
    batch.start([second])
    batch.read(2)
    batch.leave([second])
    assert not batch.reading
    assert batch.join([first])[0][0] is first  # it ends with its first token
    second = second.restarted()

    batch.start([second])
    while batch.reading:
        batch.read(3)
        batch.step()
    while batch.requests:
        batch.step()

    assert facts(tool, second) == alone(toy_engine("own-cache"), 3)


def test_a_prompt_that_fails_in_the_middle_leaves_the_others_alone():
    tool = toy_engine(network=FailsOnce(1, 4))
    batch = tool.open(slots=2)
    first, second = requests_of(tool, 0, 3)
    batch.join([first])  # pass 1
    batch.start([second])
    batch.read(3)
    batch.step()

    with pytest.raises(OutOfMemoryError):
        batch.read(3)

    assert not batch.reading
    assert batch.free == 1
    batch.join([second.restarted()])
    while batch.requests:
        batch.step()
    assert facts(tool, first) == alone(toy_engine(), 0)


def test_only_one_group_of_newcomers_is_read_at_a_time():
    tool = toy_engine()
    batch = tool.open(slots=2)
    batch.start(requests_of(tool, 0))
    with pytest.raises(ConfigError, match="being read"):
        batch.start(requests_of(tool, 1))
    with pytest.raises(ConfigError, match="only 1 have room"):
        batch.start(requests_of(tool, 1, 2))


def test_what_the_cache_holds_is_told():
    tool = toy_engine()
    batch = tool.open(slots=2)
    assert batch.cache_tokens == batch.cache_bytes == 0
    first, second = requests_of(tool, 0, 3)
    batch.join([first])
    assert batch.cache_tokens == len(PROMPT) + 1
    alone_bytes = batch.cache_bytes
    batch.start([second])
    batch.read(3)
    assert batch.cache_tokens == len(PROMPT) + 1 + 3
    assert batch.cache_bytes > alone_bytes > 0
    batch.leave([first, second])
    assert batch.cache_tokens == 0
