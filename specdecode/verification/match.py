"""Sample-and-match: the target samples as if alone; draft tokens count while they agree.

for i = 1..γ:  y_i ~ p(· | X^{i-1});   y_i = X_i: keep it;   otherwise emit y_i and stop
τ = γ:  Y ~ p(· | X^γ)
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdecode.verification.resampling import inverse_cdf, leading_run
from specdecode.verification.types import Coins, Verification
from specdecode.verification.validation import prepare, real_positions


def sample_and_match(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None = None,
    *,
    validate: bool = True,
) -> Verification:
    """Keep draft tokens while the target's own samples agree, then emit the first one that differs.

    Lossless for any draft, an undeclared one included: the draft law is not used. Keeps X_i with
    probability Σ_x p(x) q(x), less than ``token_verification`` except for one-hot drafts, where it
    is equal.

    Every output token is a sample of the target by one coin: y_i by ``coins.accept[:, i - 1]``, the
    bonus token by ``coins.resample``. So with coins keyed by absolute position (column i - 1 holds
    the coin of the output position that X_i would take, ``resample`` that of the position after the
    last draft token) the token ids equal those of plain decoding with the same coins, whatever the
    draft.

    Arguments, result and errors: see ``VerificationRule``; ``draft_probs`` is checked and not used.
    """
    block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
    B, G = block.draft_tokens.shape
    rows = torch.arange(B, device=block.lengths.device)
    bonus = inverse_cdf(target_probs[rows, block.lengths], coins.resample.double())
    samples = inverse_cdf(target_probs[:, :G].flatten(0, 1), coins.accept.flatten().double())
    drawn = torch.cat([samples.view(B, G), bonus[:, None]], 1)
    matches = (drawn[:, :G] == block.draft_tokens) & real_positions(block.lengths, G)
    num_accepted = leading_run(matches)
    return Verification(
        num_accepted, torch.where(num_accepted == block.lengths, bonus, drawn[rows, num_accepted])
    )
