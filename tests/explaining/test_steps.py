"""Where tokens come from, and why a step stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.explaining.steps import steps_of, tokens_of
from tests.explaining.traces import STEP, spell, step

BONUS = step(step=2, num_accepted=3, emitted=(10, 11, 12, 50))
PLAIN = step(
    step=3,
    draft_tokens=(),
    draft_probs=(),
    target_probs=(),
    accept_coins=(),
    num_accepted=0,
    emitted=(7,),
)


def test_every_token_has_the_stage_it_came_from():
    reply = (1, *STEP.emitted, *BONUS.emitted, *PLAIN.emitted)

    tokens = tokens_of(reply, (STEP, BONUS, PLAIN), spell)

    assert [token.token_id for token in tokens] == list(reply)
    assert [token.origin for token in tokens] == [
        *("plain", "accepted", "accepted", "resampled"),
        *("accepted", "accepted", "accepted", "bonus", "plain"),
    ]
    assert [token.step for token in tokens] == [None, 1, 1, 1, 2, 2, 2, 2, 3]


def test_a_trace_of_another_reply_is_refused():
    with pytest.raises(ValueError, match="another reply"):
        tokens_of((1, 10, 11, 98), (STEP,), spell)
    with pytest.raises(ValueError, match="another reply"):
        tokens_of((11, 99), (STEP,), spell)


@given(kept=st.integers(0, 3), cut=st.integers(0, 4))
def test_accepted_tokens_are_the_drafted_ones_and_one_more_at_most(kept, cut):
    emitted = (*STEP.draft_tokens[:kept], 99)[: max(1, cut)]

    tokens = tokens_of(emitted, (step(num_accepted=kept, emitted=emitted),), spell)

    accepted = [token.token_id for token in tokens if token.origin == "accepted"]
    assert accepted == list(STEP.draft_tokens[: min(kept, len(emitted))])
    assert len(tokens) - len(accepted) <= 1


def test_steps_come_from_the_end_and_the_slowest_is_named():
    slow = step(step=2, num_accepted=0, emitted=(99,), accept_coins=(0.9, 0.9, 0.9))

    found = steps_of((STEP, slow), "token", spell)

    assert [entry.step for entry in found] == [2, 1]
    assert [entry.slowest for entry in found] == [True, False]
    assert found[1].s_per_token == pytest.approx(0.009)


@pytest.mark.parametrize(
    ("rule", "changes", "told"),
    [
        ("token", {}, "2 of 3 kept; ' w12' rejected: coin 0.6000 is not below p / q = 0.2000"),
        ("block", {"accept_coins": (0.9, 0.3, 0.9)}, "below the running ratio p_i = 0.2000"),
        ("block", {"num_accepted": 1, "emitted": (10, 99), "accept_coins": (0.9, 0.7, 0.6)}, "h_i"),
        ("match", {}, "the target's own draw (coin 0.6000) was another"),
        ("greedy-block", {}, "p = 0.2000, q = 0.8000, coin 0.6000"),
        (
            "token",
            {"num_accepted": 3, "emitted": (10, 11, 12, 5)},
            "whole block kept (3); bonus token ' w5'",
        ),
        ("token", {"emitted": (10, 11)}, "the reply ended within the 2 kept tokens"),
        ("token", {"draft_probs": (0.5, 0.5, 0.0)}, "p / q undefined"),
    ],
)
def test_it_says_where_a_step_stopped_and_why(rule, changes, told):
    [found] = steps_of((step(**changes),), rule, spell)

    assert told in found.stopped
