"""Padding, batches and dtypes change nothing: equal rows and coins, equal outcome, bit for bit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings

from specdecode.verification import RULES, Coins
from specdecode.verification.block import block_acceptance
from specdecode.verification.greedy_block import greedy_block_acceptance
from specdecode.verification.token import token_acceptance
from specdecode.verification.types import DraftBlock
from tests.strategies import Inputs, inputs, inputs_from_seed

PLANS = {
    "token": token_acceptance,
    "block": block_acceptance,
    "greedy-block": greedy_block_acceptance,
}


def with_garbage(case):
    """The same inputs with everything beyond a row's length made unusable."""
    G = case.draft_tokens.shape[1]
    beyond = torch.arange(G) >= case.lengths[:, None]
    beyond_target = torch.arange(G + 1) > case.lengths[:, None]
    return Inputs(
        case.draft_tokens.masked_fill(beyond, -1),
        case.draft_probs.masked_fill(beyond[..., None], math.nan),
        case.target_probs.masked_fill(beyond_target[..., None], -math.inf),
        Coins(case.coins.accept.masked_fill(beyond, 7.0), case.coins.resample),
        case.lengths,
    )


def same(one, other):
    assert torch.equal(one.num_accepted, other.num_accepted)
    assert torch.equal(one.next_token, other.next_token)


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("name", RULES)
@settings(max_examples=30, deadline=None)
@given(case=inputs(ragged=True))
def test_padded_rows_equal_the_unpadded_call(name, validate, case):
    whole = with_garbage(case).run(RULES[name], validate=validate)

    for b in range(len(case.lengths)):
        alone = case.row(b).run(RULES[name])
        assert alone.num_accepted.item() == whole.num_accepted[b].item()
        assert alone.next_token.item() == whole.next_token[b].item()


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=30, deadline=None)
@given(case=inputs(ragged=True))
def test_padding_and_neighbours_leave_the_acceptance_probabilities_bit_equal(name, case):
    padded = with_garbage(case)
    tokens = padded.draft_tokens.clamp(min=0)
    plan = PLANS[name](DraftBlock(tokens, padded.draft_probs, padded.target_probs, padded.lengths))

    for b, n in enumerate(case.lengths.tolist()):
        row = case.row(b)
        alone = PLANS[name](
            DraftBlock(row.draft_tokens, row.draft_probs, row.target_probs, row.lengths)
        )
        assert torch.equal(alone.probability[0], plan.probability[b, :n])
        assert torch.equal(alone.scale[0], plan.scale[b, : n + 1])


@pytest.mark.parametrize("name", ["block", "greedy-block"])
def test_the_last_real_token_is_judged_by_the_ratio_alone(name):
    # A padded row used to be judged by the residual of the placeholder behind it.
    q = torch.tensor([[[0.5, 0.5], [0.9, 0.1]]])
    p = torch.tensor([[[0.25, 0.75], [0.1, 0.9], [0.5, 0.5]]])
    block = DraftBlock(torch.tensor([[0, 0]]), q, p, torch.tensor([1]))

    assert PLANS[name](block).probability[0, 0].item() == 0.5


@pytest.mark.parametrize("name", RULES)
def test_length_zero_samples_target_row_zero(name):
    p = torch.tensor([[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]] * 3)
    q = torch.full((3, 1, 3), math.nan)
    coins = Coins(torch.zeros(3, 1), torch.tensor([0.1, 0.4, 0.9]))

    found = RULES[name](torch.full((3, 1), -1), q, p, coins, torch.zeros(3, dtype=torch.int64))

    assert found.num_accepted.tolist() == [0, 0, 0]
    assert found.next_token.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", RULES)
def test_a_block_of_no_draft_tokens_samples_target_row_zero(name):
    p = torch.tensor([[[0.2, 0.3, 0.5]]] * 2)
    coins = Coins(torch.zeros(2, 0), torch.tensor([0.1, 0.9]))

    found = RULES[name](torch.zeros(2, 0, dtype=torch.int64), torch.zeros(2, 0, 3), p, coins)

    assert found.num_accepted.tolist() == [0, 0]
    assert found.next_token.tolist() == [0, 2]


@pytest.mark.parametrize("name", RULES)
def test_an_empty_batch_gives_an_empty_outcome(name):
    coins = Coins(torch.zeros(0, 2), torch.zeros(0))

    found = RULES[name](
        torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, 2, 3), torch.zeros(0, 3, 3), coins
    )

    assert found.num_accepted.shape == found.next_token.shape == (0,)


@pytest.mark.parametrize("name", RULES)
def test_rows_do_not_depend_on_their_neighbours(name):
    case = inputs_from_seed(9, batch=32, gamma=4, vocabulary=300)
    order = torch.randperm(32, generator=torch.Generator().manual_seed(1))
    mixed = Inputs(
        case.draft_tokens[order],
        case.draft_probs[order],
        case.target_probs[order],
        Coins(case.coins.accept[order], case.coins.resample[order]),
        case.lengths[order],
    )

    found, other = case.run(RULES[name]), mixed.run(RULES[name])

    assert torch.equal(found.num_accepted[order], other.num_accepted)
    assert torch.equal(found.next_token[order], other.next_token)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", RULES)
def test_a_dtype_and_float64_holding_the_same_numbers_decide_alike(name, dtype):
    case = inputs_from_seed(4, batch=64, gamma=4, vocabulary=40)
    q, p = case.draft_probs.to(dtype), case.target_probs.to(dtype)
    accept, resample = case.coins.accept.float(), case.coins.resample.float()

    narrow = RULES[name](case.draft_tokens, q, p, Coins(accept, resample))
    wide = RULES[name](
        case.draft_tokens,
        q.double(),
        p.double(),
        Coins(accept.double(), resample.double()),
        validate=False,
    )

    same(narrow, wide)


@pytest.mark.parametrize("name", RULES)
def test_threads_and_strides_change_nothing(name):
    case = inputs_from_seed(6, batch=4, gamma=4, vocabulary=5000)
    found = case.run(RULES[name])
    torch.set_num_threads(2)
    strided = Inputs(
        case.draft_tokens.t().contiguous().t(),
        case.draft_probs.transpose(0, 2).contiguous().transpose(0, 2),
        case.target_probs.transpose(0, 2).contiguous().transpose(0, 2),
        case.coins,
        case.lengths,
    )

    same(strided.run(RULES[name]), found)


@pytest.mark.parametrize("name", RULES)
def test_arguments_are_left_as_they_were(name):
    case = inputs_from_seed(2, batch=4, gamma=3, vocabulary=9)
    copies = [
        t.clone()
        for t in (case.draft_tokens, case.draft_probs, case.target_probs, case.coins.accept)
    ]

    case.run(RULES[name])

    now = (case.draft_tokens, case.draft_probs, case.target_probs, case.coins.accept)
    assert all(torch.equal(a, b) for a, b in zip(copies, now, strict=True))
    again = case.run(RULES[name])
    same(again, case.run(RULES[name], validate=False))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", RULES)
def test_cpu_and_gpu_decide_alike(name):
    case = inputs_from_seed(8, batch=64, gamma=5, vocabulary=5000, ragged=True)
    there = Inputs(
        case.draft_tokens.cuda(),
        case.draft_probs.cuda(),
        case.target_probs.cuda(),
        Coins(case.coins.accept.cuda(), case.coins.resample.cuda()),
        case.lengths.cuda(),
    )

    found = there.run(RULES[name])

    assert found.num_accepted.cpu().tolist() == case.run(RULES[name]).num_accepted.tolist()
    assert found.next_token.cpu().tolist() == case.run(RULES[name]).next_token.tolist()
