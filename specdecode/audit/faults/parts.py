"""A verification rule in three parts, so that one of them can be broken and the rest kept.

The rule and its exact law are made of the same parts: what is enumerated is what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from specdecode.verification import Coins, Verification
from specdecode.verification.block import block_acceptance
from specdecode.verification.resampling import (
    inverse_cdf,
    last_accepted,
    leading_run,
    next_token_weights,
    passed,
)
from specdecode.verification.token import token_acceptance
from specdecode.verification.types import AcceptancePlan, DraftBlock
from specdecode.verification.validation import prepare

Acceptance = Callable[[DraftBlock], AcceptancePlan]
Count = Callable[[Tensor], Tensor]
Weights = Callable[[DraftBlock, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class RuleParts:
    """A verification rule; call it like any other (`specdecode.verification.VerificationRule`).

    Attributes:
        acceptance: with which probability each draft token passes, and the residual's scale.
        count: bool [..., G] of passed tokens -> int64 [...], how many are kept.
        weights: (block, kept int64 [B], scale float64 [B, G + 1]) -> float [B, V], what the token
            after the kept ones is drawn from; not normalised.
    """

    acceptance: Acceptance
    count: Count
    weights: Weights = next_token_weights

    def __call__(
        self,
        draft_tokens: Tensor,
        draft_probs: Tensor,
        target_probs: Tensor,
        coins: Coins,
        lengths: Tensor | None = None,
        *,
        validate: bool = True,
    ) -> Verification:
        """See `specdecode.verification.VerificationRule`."""
        block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
        plan = self.acceptance(block)
        kept = self.count(passed(coins.accept, plan.probability, block.lengths))
        # Without a draft there is nothing to get wrong: the step is plain decoding.
        weights = self.weights if draft_tokens.shape[1] else next_token_weights
        drawn = inverse_cdf(weights(block, kept, plan.scale), coins.resample.double())
        return Verification(kept, drawn)


CORRECT: Final = {
    "token": RuleParts(token_acceptance, leading_run),
    "block": RuleParts(block_acceptance, last_accepted),
}
"""The rules that faults are planted in, put together rightly."""
