"""Sample-and-match follows the target's own samples, whatever the draft."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.verification import Coins, sample_and_match
from tests.strategies import inputs_from_seed, model_from_seed


def rows(model, prefix, tokens):
    return torch.tensor(
        [[[float(p) for p in model(prefix + tokens[:i])] for i in range(len(tokens) + 1)]],
        dtype=torch.float64,
    )


def decode(target, draft_tokens_at, coins, length, gamma):
    """Speculative decoding with coins keyed by output position; γ = 0 is plain decoding."""
    out = ()
    while len(out) < length:
        here = len(out)
        block = draft_tokens_at(out, gamma)
        p = rows(target, out, block)
        q = torch.full((1, gamma, p.shape[-1]), 1 / p.shape[-1], dtype=torch.float64)
        found = sample_and_match(
            torch.tensor([block], dtype=torch.int64).view(1, gamma),
            q,
            p,
            Coins(coins[None, here : here + gamma], coins[None, here + gamma]),
        )
        out += (*block[: found.num_accepted.item()], found.next_token.item())
    return out[:length]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), gamma=st.integers(1, 4))
def test_coins_keyed_by_position_give_plain_decodings_tokens(seed, gamma):
    target = model_from_seed(seed, 3)
    guess = model_from_seed(seed + 1, 3, kind="one-hot")
    coins = torch.rand(40, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def block_of(prefix, count):
        block = ()
        for _ in range(count):
            block += (guess(prefix + block).index(1),)
        return block

    plain = decode(target, block_of, coins, 12, 0)

    assert decode(target, block_of, coins, 12, gamma) == plain


def test_the_draft_law_plays_no_part():
    case = inputs_from_seed(1, batch=8, gamma=3, vocabulary=5)
    flat = torch.full_like(case.draft_probs, 0.2)

    found = case.run(sample_and_match)
    other = sample_and_match(case.draft_tokens, flat, case.target_probs, case.coins, case.lengths)

    assert torch.equal(found.num_accepted, other.num_accepted)
    assert torch.equal(found.next_token, other.next_token)
