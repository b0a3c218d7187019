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

``RULES`` holds the rules for one chain of draft tokens, which the engine can run. Two more judge
several continuations at once and have their own signatures; they are lossless too:

    multi_draft_verification    K candidates for one position
    traversal_verification      a ``DraftTree`` of candidates, from its leaves up

For those, K is candidates per row, N draft nodes of a tree, P nodes that can have children, and T
and Q what rejected candidates leave of p and q.

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
from specdecode.verification.multi_draft import (
    Candidates,
    MultiDraftVerification,
    draw_without_replacement,
    multi_draft_verification,
)
from specdecode.verification.registry import RULES
from specdecode.verification.token import token_verification
from specdecode.verification.traversal import TreeVerification, traversal_verification
from specdecode.verification.tree import DraftTree
from specdecode.verification.types import Coins, Verification, VerificationRule

__all__ = [
    "RULES",
    "Candidates",
    "Coins",
    "DraftTree",
    "MultiDraftVerification",
    "TreeVerification",
    "Verification",
    "VerificationRule",
    "block_verification",
    "draw_without_replacement",
    "emitted_ratio",
    "greedy_block_verification",
    "modified_target",
    "multi_draft_verification",
    "sample_and_match",
    "token_verification",
    "traversal_verification",
]
