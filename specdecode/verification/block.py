"""Block verification: judge the draft block as a whole and keep its longest accepted prefix.

Sun et al., "Block Verification Accelerates Speculative Decoding", arXiv 2403.10444 (ICLR 2025),
Algorithm 2, Equations 4 and 5.

    p_0 = 1,  τ = 0
    for i = 1..γ:
        p_i = min(p_{i-1} · p(X_i | X^{i-1}) / q(X_i | X^{i-1}), 1)
        A_i = Σ_x (p_i · p(x | X^i) − q(x | X^i))_+
        h_i = A_i / (A_i + 1 − p_i)   for i < γ, with 0/0 = 1;      h_γ = p_γ
        if η_i < h_i:  τ = i                                          # no stop at a rejection
    τ = γ:  Y ~ p(· | X^γ)          τ < γ:  Y ∝ (p_τ · p(· | X^τ) − q(· | X^τ))_+

A_i costs a pass over the vocabulary, and most coins are decided without it: h_i ≤ p_i always,
h_i = 1 where p_i = 1, and an acceptance makes all earlier positions irrelevant. So
``longest_accepted`` goes from the end and stops at the first acceptance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdecode.verification.resampling import (
    emit,
    last_accepted,
    order_free_sum,
    passed,
    rows_at,
    token_ratios,
)
from specdecode.verification.types import AcceptancePlan, Coins, DraftBlock, Verification
from specdecode.verification.validation import prepare, real_positions

_FLOAT32_ERROR = 1e-6


def block_acceptance(block: DraftBlock) -> AcceptancePlan:
    """h_i of the module docstring; the residual after τ tokens is scaled by p_τ.

    γ is the row's own length: the last real token is judged by h = p, not by the padding behind it.
    """
    G = block.draft_tokens.shape[1]
    scale = running_ratios(block)
    probability = scale[:, 1:].clone()
    rows, places = real_positions(block.lengths - 1, G).nonzero(as_tuple=True)
    if rows.numel():
        probability[rows, places] = _look_ahead(
            rows_at(block.target_probs, places + 1, rows),
            rows_at(block.draft_probs, places + 1, rows),
            probability[rows, places],
        )
    return AcceptancePlan(probability, scale)


def running_ratios(block: DraftBlock) -> Tensor:
    """p_0, ..., p_γ, float64 [B, G + 1]."""
    ratios = [torch.ones(block.lengths.shape, dtype=torch.float64, device=block.lengths.device)]
    for ratio in token_ratios(block).unbind(1):
        ratios.append((ratios[-1] * ratio).clamp_(max=1))
    return torch.stack(ratios, 1)


def longest_accepted(block: DraftBlock, scale: Tensor, accept: Tensor) -> Tensor:
    """τ, int64 [B]: what the coins make of ``block_acceptance``, without working out all of it.

    Args:
        block: the checked input.
        scale: ``running_ratios(block)``.
        accept: coins [B, G].
    """
    lengths, ratios, coins = block.lengths.tolist(), scale.tolist(), accept.double().tolist()
    kept = [0] * len(lengths)
    for b, length in enumerate(lengths):
        for i in range(length, 0, -1):
            ratio, coin = ratios[b][i], coins[b][i - 1]
            sure = i == length or ratio == 1
            if coin < ratio and (sure or _passes(block, b, i, ratio, coin)):
                kept[b] = i
                break
    return torch.tensor(kept, dtype=torch.int64, device=block.lengths.device)


def _passes(block: DraftBlock, b: int, i: int, ratio: float, coin: float) -> bool:
    """Whether coin < h_i, for p_i = ratio < 1."""
    p, q = block.target_probs[b, i], block.draft_probs[b, i]
    # First in the rows' own precision: coin < A / (A + 1 − p_i) iff this margin is positive. The
    # terms of A are rounded probabilities, so float32 misses A by less than 4 · 2^-24 in total.
    mass = float((p * ratio).sub_(q).clamp_(min=0).sum(dtype=torch.float64))
    margin = mass * (1 - coin) - coin * (1 - ratio)
    if abs(margin) > _FLOAT32_ERROR and p.dtype in (torch.float32, torch.float64):
        return margin > 0
    exact = torch.tensor([ratio], dtype=torch.float64, device=p.device)
    return coin < float(_look_ahead(p[None], q[None], exact))


def _look_ahead(p: Tensor, q: Tensor, ratio: Tensor) -> Tensor:
    """h_i = A_i / (A_i + 1 − p_i), float64 [K], from K rows [K, V] and their p_i, float64 [K]."""
    mass = order_free_sum((ratio[:, None] * p).sub_(q).clamp_(min=0), most=1.0)
    denominator = mass + (1 - ratio)
    # 0/0 only where p_i = 1 and both laws agree: nothing is left to correct.
    h = torch.where(denominator == 0, 1.0, mass / denominator)
    return torch.minimum(h, ratio)  # h_i ≤ p_i; rounding may not break it


def block_verification(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None = None,
    *,
    validate: bool = True,
) -> Verification:
    """Keep the longest accepted prefix of each draft block, then resample (arXiv 2403.10444).

    The output law is the target's, at any draft law, and no rule usable without changing later
    decoding keeps more tokens on average. Equal to ``token_verification`` in expectation at G = 1,
    for one-hot drafts and for a one-hot target (temperature 0), so there is nothing to gain there.
    Needs the full draft law at every position.

    Arguments, result and errors: see ``VerificationRule``.
    """
    block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
    if draft_tokens.device.type == "cpu":
        scale = running_ratios(block)
        num_accepted = longest_accepted(block, scale, coins.accept)
    else:  # there a pass over the vocabulary costs less than asking the device what it found
        plan = block_acceptance(block)
        scale = plan.scale
        num_accepted = last_accepted(passed(coins.accept, plan.probability, block.lengths))
    return emit(block, num_accepted, scale, coins.resample)
