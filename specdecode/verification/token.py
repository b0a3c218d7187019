"""Token verification: judge each draft token by itself and stop at the first rejection.

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192,
Algorithm 1; Chen et al., arXiv 2302.01318.

    for i = 1..γ:  accept X_i  iff  η_i < min(1, p(X_i | X^{i-1}) / q(X_i | X^{i-1})),  else stop
    τ = γ:  Y ~ p(· | X^γ)          τ < γ:  Y ∝ (p(· | X^τ) − q(· | X^τ))_+
"""

from __future__ import annotations

from torch import Tensor

from specdecode.verification.resampling import emit, leading_run, passed, token_ratios
from specdecode.verification.types import AcceptancePlan, Coins, DraftBlock, Verification
from specdecode.verification.validation import prepare


def token_acceptance(block: DraftBlock) -> AcceptancePlan:
    """h_i = min(1, p(X_i) / q(X_i)); the residual is not scaled."""
    probability = token_ratios(block).clamp_(max=1)
    B, G = probability.shape
    return AcceptancePlan(probability, probability.new_ones(1, 1).expand(B, G + 1))


def token_verification(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None = None,
    *,
    validate: bool = True,
) -> Verification:
    """Keep draft tokens up to the first rejection, then resample (arXiv 2211.17192).

    The output law is the target's, at any draft law. Needs one probability per draft token and one
    residual row, so it is the cheapest rule; ``block_verification`` keeps at least as many tokens
    on average.

    Arguments, result and errors: see ``VerificationRule``.
    """
    block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
    plan = token_acceptance(block)
    num_accepted = leading_run(passed(coins.accept, plan.probability, block.lengths))
    return emit(block, num_accepted, plan.scale, coins.resample)
