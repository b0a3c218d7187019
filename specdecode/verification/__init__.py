"""Verification: which draft tokens the target keeps, and what follows them.

Pure functions on tensors; no model, no state, no random generator. All rules share one signature
and one set of symbols:

    B, G, V       rows in the batch, draft tokens per row (γ), vocabulary size
    X_1..X_γ      draft tokens; X_i is ``draft_tokens[b, i - 1]``
    q, M_s        draft law; row i - 1 is the law that X_i was drawn from
    p, M_b        target law; row i is the law after i draft tokens
    p_i           running ratio of target to draft along X_1..X_i; clipped at 1, except in
                  greedy block verification
    h_i           probability that coin i accepts: iff ``coins.accept[b, i - 1] < h_i``
    τ             draft tokens kept (``num_accepted``)

Arithmetic is float64 in a fixed order of additions, so that equal inputs and coins give equal
results on every device, in every batch and at every padding.
"""

from __future__ import annotations

from specdecode.verification.block import block_verification
from specdecode.verification.greedy_block import (
    emitted_ratio,
    greedy_block_verification,
    modified_target,
)
from specdecode.verification.match import sample_and_match
from specdecode.verification.registry import RULES
from specdecode.verification.token import token_verification
from specdecode.verification.types import Coins, Verification, VerificationRule

__all__ = [
    "RULES",
    "Coins",
    "Verification",
    "VerificationRule",
    "block_verification",
    "emitted_ratio",
    "greedy_block_verification",
    "modified_target",
    "sample_and_match",
    "token_verification",
]
