"""A trace that its coins do not allow is found, a true one is not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdecode.decoding.trace import StepTrace
from specdecode.explaining.rules import CHECKED, first_fault, running_ratios
from specdecode.verification import RULES, Coins
from tests.explaining.traces import STEP, step


def test_the_running_ratio_is_cut_at_one_again_and_again():
    assert running_ratios(STEP) == pytest.approx([1.0, 0.8, 0.2])
    assert running_ratios(step(draft_probs=(0.5, 0.0, 0.8))) == pytest.approx([1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("rule", "changes", "told"),
    [
        ("token", {"accept_coins": (0.9, 0.9, 0.6)}, "token 2 was kept although"),
        ("token", {"accept_coins": (0.9, 0.3, 0.1)}, "token 3 was dropped although"),
        ("block", {"accept_coins": (0.9, 0.9, 0.6)}, "token 2 ends the kept prefix although"),
        ("block", {"accept_coins": (0.9, 0.3, 0.1)}, "token 3 was dropped although"),
    ],
)
def test_a_decision_against_the_coins_is_named(rule, changes, told):
    assert told in (first_fault([step(**changes)], rule) or "")


def test_a_coin_that_equals_its_bound_does_not_pass():
    exact = step(accept_coins=(0.9, 0.3, 0.25), target_probs=(0.6, 0.4, 0.2))

    assert first_fault([exact], "token") is None  # p / q is 0.25 as well


def test_rules_that_cannot_be_checked_find_nothing():
    wrong = step(accept_coins=(0.9, 0.9, 0.1))
    assert [first_fault([wrong], rule) for rule in ("match", "greedy-block", None)] == [None] * 3


@pytest.mark.parametrize("rule", CHECKED)
@given(seed=st.integers(0, 2**31), width=st.integers(1, 5))
def test_what_the_rule_itself_decides_is_always_in_order(rule, seed, width):
    draw = torch.Generator().manual_seed(seed)
    laws = torch.rand(2 * width + 1, 6, generator=draw, dtype=torch.float64) ** 4 + 1e-9
    laws = laws / laws.sum(1, keepdim=True)
    q, p = laws[:width], laws[width:]
    tokens = torch.multinomial(q, 1, generator=draw)[:, 0]
    coins = torch.rand(width + 1, generator=draw, dtype=torch.float64)
    made = RULES[rule](tokens[None], q[None], p[None], Coins(coins[None, :width], coins[width:]))
    at = tokens[:, None]
    trace = StepTrace(
        step=1,
        position=1,
        draft_tokens=tuple(tokens.tolist()),
        draft_probs=tuple(q.gather(1, at)[:, 0].tolist()),
        target_probs=tuple(p[:width].gather(1, at)[:, 0].tolist()),
        accept_coins=tuple(coins[:width].tolist()),
        resample_coin=float(coins[width]),
        num_accepted=int(made.num_accepted[0]),
        emitted=(),
        draft_s=0.0,
        score_s=0.0,
        verify_s=0.0,
    )

    assert first_fault([trace], rule) is None
