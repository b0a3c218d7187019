"""Block verification skips most of its sums: the verdict must be the one of all of them."""

from __future__ import annotations

import pytest
import torch

from specdecode.verification import Coins, block_verification
from specdecode.verification.block import block_acceptance
from specdecode.verification.resampling import last_accepted, passed
from specdecode.verification.types import DraftBlock
from specdecode.verification.validation import prepare

B, G, V = 40, 6, 500


def laws(seed, noise, dtype):
    """Draft and target laws that differ by `noise`, some tokens impossible under either."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(B, G + 1, V, generator=generator, dtype=torch.float64)
    draft = logits[:, :G] + noise * torch.randn(B, G, V, generator=generator, dtype=torch.float64)
    logits[:, :, ::7] = float("-inf")
    draft[:, :, ::5] = float("-inf")
    q, p = draft.softmax(-1).to(dtype), logits.softmax(-1).to(dtype)
    tokens = torch.multinomial(q.flatten(0, 1).float(), 1, generator=generator).view(B, G)
    lengths = torch.randint(0, G + 1, (B,), generator=generator)
    return DraftBlock(tokens, q, p, lengths), generator


def by_all_sums(block, accept):
    inputs = prepare(
        block.draft_tokens, block.draft_probs, block.target_probs,
        Coins(accept, accept[:, 0]), block.lengths, validate=True,
    )  # fmt: skip
    plan = block_acceptance(inputs)
    return last_accepted(passed(accept, plan.probability, inputs.lengths))


def by_the_rule(block, accept):
    coins = Coins(accept, torch.full((B,), 0.5, dtype=torch.float64))
    return block_verification(
        block.draft_tokens, block.draft_probs, block.target_probs, coins, block.lengths
    ).num_accepted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3, 1.0, 3.0])
def test_same_verdict_as_all_sums(dtype, noise):
    for seed in range(5):
        block, generator = laws(seed, noise, dtype)
        accept = torch.rand(B, G, generator=generator, dtype=torch.float64)

        assert torch.equal(by_the_rule(block, accept), by_all_sums(block, accept))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("place", range(G))
@pytest.mark.parametrize("step", [-1, 0, 1])
def test_coins_at_the_border_are_judged_by_the_exact_sum(dtype, place, step):
    block, _ = laws(place, 0.3, dtype)
    h = block_acceptance(block).probability
    # Every other coin rejects, so this one decides; one double to either side of h_i, and on it.
    accept = torch.full((B, G), 1 - 2**-53, dtype=torch.float64)
    border = torch.nextafter(h[:, place], torch.full_like(h[:, place], float(step)))
    accept[:, place] = (border if step else h[:, place]).clamp(0, 1 - 2**-53)

    assert torch.equal(by_the_rule(block, accept), by_all_sums(block, accept))


def test_h_never_exceeds_the_running_ratio():
    for seed in range(20):
        block, _ = laws(seed, 0.5, torch.float64)
        plan = block_acceptance(block)

        assert bool((plan.probability <= plan.scale[:, 1:]).all())
