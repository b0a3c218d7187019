"""Latencies from raw times; golden values are worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.load.observation import Observation


def whole(**changes):
    """Due at 1, sent at 1.5, chunks of 1, 3 and 2 tokens at 2, 2.6 and 3: 6 tokens."""
    values = {
        "due": 1.0,
        "sent": 1.5,
        "ended": 3.2,
        "last": 3.0,
        "chunk_times": [2.0, 2.6, 3.0],
        "chunk_tokens": [1, 3, 2],
        "usage": {"completion_tokens": 6, "prompt_tokens": 4},
    }
    return Observation(**values | changes)


def test_latency_counts_from_the_schedule_and_not_from_sending():
    seen = whole()
    assert seen.ttft_s == 1.0
    assert seen.e2e_s == 2.0
    assert seen.tpot_s == pytest.approx(1.0 / 5)
    assert seen.lag_s == 0.5


def test_gaps_of_chunks_and_of_tokens_are_different_things():
    seen = whole()
    assert seen.chunk_gaps_s == pytest.approx([0.6, 0.4])
    assert [n for _, n in seen.token_gaps_s] == [3, 2]
    assert [gap for gap, _ in seen.token_gaps_s] == pytest.approx([0.2, 0.2])


def test_chunks_never_stand_in_for_tokens():
    seen = whole(usage=None, chunk_tokens=[None, None, None])
    assert seen.output_tokens is None
    assert seen.tpot_s is None
    assert seen.token_gaps_s is None
    assert seen.ttft_s == 1.0


def test_one_chunk_of_unknown_tokens_leaves_the_whole_reply_without_token_gaps():
    assert whole(chunk_tokens=[None, 3, None]).token_gaps_s is None
    assert whole(chunk_tokens=[None, 3, 2]).token_gaps_s is not None  # the first ends no gap


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_reply_without_a_second_token_has_no_time_per_token(tokens):
    assert whole(usage={"completion_tokens": tokens}).tpot_s is None


def test_token_ids_count_where_there_is_no_usage():
    assert whole(usage=None, token_ids=[1, 2, 3]).output_tokens == 3


def test_a_failed_or_cancelled_reply_has_no_end_to_end_time():
    assert whole(fault=("deadline", "")).e2e_s is None
    assert whole(cancelled=True).e2e_s is None
    assert whole(fault=("deadline", ""), cancelled=True).status == "failed"


def test_waiting_for_a_slot_is_no_lag_of_the_client():
    assert whole(queued_s=0.4).lag_s == pytest.approx(0.1)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(1, 9)), min_size=2, max_size=30),
)
def test_token_gaps_add_up_to_the_time_from_first_to_last(steps):
    times, tokens, now = [], [], 0.0
    for gap, number in steps:
        now += gap
        times.append(now)
        tokens.append(number)
    seen = Observation(due=0.0, chunk_times=times, chunk_tokens=tokens)

    assert sum(gap * n for gap, n in seen.token_gaps_s) == pytest.approx(times[-1] - times[0])
    assert sum(n for _, n in seen.token_gaps_s) == sum(tokens[1:])
