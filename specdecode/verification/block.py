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
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdecode.verification.resampling import (
    chosen,
    emit,
    extend_ratio,
    fixed_order_sum,
    last_accepted,
    passed,
)
from specdecode.verification.types import AcceptancePlan, Coins, DraftBlock, Verification
from specdecode.verification.validation import prepare


def block_acceptance(block: DraftBlock) -> AcceptancePlan:
    """h_i of the module docstring; the residual after τ tokens is scaled by p_τ.

    γ is the row's own length: the last real token is judged by h = p, not by the padding behind it.
    """
    B, G = block.draft_tokens.shape
    ratio = torch.ones(B, dtype=torch.float64, device=block.draft_tokens.device)
    ratios, probabilities = [ratio], []
    for i in range(1, G + 1):
        token = block.draft_tokens[:, i - 1]
        p, q = chosen(block.target_probs, i - 1, token), chosen(block.draft_probs, i - 1, token)
        ratio = extend_ratio(ratio, p, q).clamp(max=1)
        ratios.append(ratio)
        h = ratio
        if i < G:
            h = torch.where(block.lengths == i, ratio, _look_ahead(block, i, ratio))
        probabilities.append(h)
    probability = torch.stack(probabilities, 1) if G else ratio.new_empty(B, 0)
    return AcceptancePlan(probability, torch.stack(ratios, 1))


def _look_ahead(block: DraftBlock, i: int, ratio: Tensor) -> Tensor:
    """A_i / (A_i + 1 − p_i), float64 [B]."""
    excess = ratio[:, None] * block.target_probs[:, i].double()
    mass = fixed_order_sum(excess.sub_(block.draft_probs[:, i]).clamp_(min=0))
    denominator = mass + (1 - ratio)
    # 0/0 only where p_i = 1 and both laws agree: nothing is left to correct.
    return torch.where(denominator == 0, torch.ones_like(mass), mass / denominator)


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

    Args:
        draft_tokens: int64 [B, G]; anything beyond a row's length.
        draft_probs: float [B, G, V], the law each draft token was drawn from.
        target_probs: float [B, G + 1, V], the target law after 0..G draft tokens.
        coins: ``accept`` [B, G] judges, ``resample`` [B] draws the next token.
        lengths: int64 [B], real draft lengths; None means G.
        validate: False skips all checks.

    Returns:
        Tokens kept and next token per row.

    Raises:
        ValueError: malformed input; the message names tensor, row and position.
    """
    block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
    plan = block_acceptance(block)
    num_accepted = last_accepted(passed(coins.accept, plan.probability, block.lengths))
    return emit(block, num_accepted, plan.scale, coins.resample)
