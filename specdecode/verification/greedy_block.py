"""Greedy block verification: the most tokens per iteration, but the target changes afterwards.

Sun et al., arXiv 2403.10444, appendix. The loop of block verification with the unclipped ratio
p̃_i = Π_{j ≤ i} p(X_j | X^{j-1}) / q(X_j | X^{j-1}):

    A_i = Σ_x (p̃_i · p(x | X^i) − q(x | X^i))_+        D_i = Σ_x (q(x | X^i) − p̃_i · p(x | X^i))_+
    h_i = min(1, A_i / D_i) for i < γ, 1 where D_i = 0;    h_γ = min(1, p̃_γ)
    τ = the last i with η_i < h_i;  Y ∝ (p̃_τ · p(· | X^τ) − q(· | X^τ))_+, or ~ p(· | X^γ) at τ = γ

D_i equals A_i + 1 − p̃_i but does not cancel when p̃_i is large. Every iteration keeps Σ min(M_s,
M_b) tokens on average, which is the most any rule can. That alone bends the output law; it is
repaired by decoding the next γ − τ − 1 positions with the target

    p'(x | s) ∝ (p̃(s) · p(x | s) − q(x | s))_+,     p̃(s) along the emitted path since the block's
    start.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdecode.errors import ConfigError
from specdecode.verification.resampling import (
    chosen,
    emit,
    extend_ratio,
    fixed_order_sum,
    last_accepted,
    passed,
    residual,
)
from specdecode.verification.types import AcceptancePlan, Coins, DraftBlock, Verification
from specdecode.verification.validation import prepare

# Keeps ratio · p finite. An honest draft gets here with a probability below 1e-250.
_LARGEST_RATIO = 1e250


def _extend(ratio: Tensor, target: Tensor, draft: Tensor) -> Tensor:
    return extend_ratio(ratio, target, draft).clamp(max=_LARGEST_RATIO)


def greedy_block_acceptance(block: DraftBlock) -> AcceptancePlan:
    """h_i of the module docstring; the residual after τ tokens is scaled by p̃_τ."""
    B, G = block.draft_tokens.shape
    ratio = torch.ones(B, dtype=torch.float64, device=block.draft_tokens.device)
    ratios, probabilities = [ratio], []
    for i in range(1, G + 1):
        token = block.draft_tokens[:, i - 1]
        p, q = chosen(block.target_probs, i - 1, token), chosen(block.draft_probs, i - 1, token)
        ratio = _extend(ratio, p, q)
        ratios.append(ratio)
        h = ratio.clamp(max=1)
        if i < G:
            h = torch.where(block.lengths == i, h, _look_ahead(block, i, ratio))
        probabilities.append(h)
    probability = torch.stack(probabilities, 1) if G else ratio.new_empty(B, 0)
    return AcceptancePlan(probability, torch.stack(ratios, 1))


def _look_ahead(block: DraftBlock, i: int, ratio: Tensor) -> Tensor:
    """min(1, A_i / D_i), float64 [B]."""
    difference = ratio[:, None] * block.target_probs[:, i].double()
    difference = difference.sub_(block.draft_probs[:, i])
    excess = fixed_order_sum(difference.clamp(min=0))
    lack = fixed_order_sum(difference.neg_().clamp_(min=0))
    return torch.where(lack == 0, torch.ones_like(lack), (excess / lack).clamp(max=1))


def greedy_block_verification(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None = None,
    *,
    validate: bool = True,
) -> Verification:
    """Keep the most draft tokens one iteration allows (arXiv 2403.10444, appendix).

    **Not lossless by itself.** The output law equals the target's only if later iterations decode
    with ``modified_target``; a caller that does not carry that state must not use this rule. Over
    many iterations it keeps fewer tokens than ``block_verification``, because the modified target
    lies further from the draft; it is here as the upper bound per iteration.

    Arguments, result and errors: see ``VerificationRule``; ``target_probs`` is modified where an
    earlier block still asks for it.
    """
    block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
    plan = greedy_block_acceptance(block)
    num_accepted = last_accepted(passed(coins.accept, plan.probability, block.lengths))
    return emit(block, num_accepted, plan.scale, coins.resample)


def emitted_ratio(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    verification: Verification,
    ratio: Tensor | None = None,
) -> Tensor:
    """p̃ after the tokens an iteration emitted: the kept draft tokens and the next token.

    Args:
        draft_tokens: int64 [B, G], the block that was verified.
        draft_probs: float [B, G, V].
        target_probs: float [B, G + 1, V], the target in force for the block whose p̃ this is.
        verification: what the iteration emitted.
        ratio: float64 [B], p̃ before it; None at the start of a block, where it is 1.

    Returns:
        float64 [B]. Rows that kept all G tokens get p̃ of those alone: no draft law exists for
        their bonus token, and none of their positions is left to modify.
    """
    B, G = draft_tokens.shape
    if ratio is None:
        ratio = torch.ones(B, dtype=torch.float64, device=draft_tokens.device)
    kept, last = verification.num_accepted, verification.next_token
    for i in range(G):
        token = torch.where(kept == i, last, draft_tokens[:, i]).clamp(
            0, target_probs.shape[-1] - 1
        )
        p, q = chosen(target_probs, i, token), chosen(draft_probs, i, token)
        ratio = torch.where(kept >= i, _extend(ratio, p, q), ratio)
    return ratio


def modified_target(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    ratio: Tensor,
    remaining: Tensor,
) -> Tensor:
    """Target rows to verify the next block with, after a greedy block verification.

    After an iteration of length γ that kept τ tokens, ``remaining`` is max(γ − τ − 1, 0) and
    ``ratio`` is ``emitted_ratio``. When a further block ends before ``remaining`` runs out, both
    modifications apply: the older one first, each with its own ratio, which follows the emitted
    path in the target it was made from.

    Args:
        draft_tokens: int64 [B, G], the next block.
        draft_probs: float [B, G, V], its draft laws.
        target_probs: float [B, G + 1, V], the target in force for the earlier block.
        ratio: float64 [B], p̃ before row 0.
        remaining: int64 [B], how many leading rows to replace, 0 to G.

    Returns:
        float64 [B, G + 1, V]: rows below ``remaining`` are norm((p̃ · p − q)_+), the others as
        given.

    Raises:
        ValueError: a row asks for more modified positions than its block has draft laws.
    """
    G = draft_tokens.shape[1]
    bad = (remaining < 0) | (remaining > G)
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        raise ConfigError(
            f"remaining, row {row}: got {int(remaining[row])}, but the next block has draft laws "
            f"for {G} positions; draft at least that many tokens after a greedy block verification."
        )
    rows = target_probs.double().clone()
    for i in range(G):
        weights = residual(rows[:, i], draft_probs[:, i], ratio)
        weights = weights / fixed_order_sum(weights)[:, None]
        token = draft_tokens[:, i].clamp(0, target_probs.shape[-1] - 1)
        ratio = _extend(ratio, chosen(target_probs, i, token), chosen(draft_probs, i, token))
        rows[:, i] = torch.where((i < remaining)[:, None], weights, rows[:, i])
    return rows
