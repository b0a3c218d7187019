"""Multi-draft verification: several candidates for one position, judged one after the other.

Recursive rejection sampling, Jeon et al., arXiv 2402.14160 (candidates without replacement), and
Miao et al., SpecInfer, arXiv 2305.09781 (with replacement). With p_1 = p and q_1 = q:

    for i = 1..K:  accept X_i  iff  η_i < min(1, p_i(X_i) / q_i(X_i)),  else
                   p_{i+1} = norm((p_i − q_i)_+),   q_{i+1} = norm(q_i without X_i)
    all rejected:  Y ~ p_{K+1}

With replacement q_{i+1} = q. Either way the token that comes out has the law p.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.errors import ConfigError
from specdecode.verification.remainder import Remainder
from specdecode.verification.resampling import inverse_cdf
from specdecode.verification.types import Coins
from specdecode.verification.validation import (
    check_coins,
    check_rows,
    check_tensors,
    real_positions,
    refuse,
)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Tokens drawn without replacement.

    Attributes:
        tokens: int64 [B, K], in the order drawn; −1 beyond a row's length.
        lengths: int64 [B], tokens drawn: K, or fewer where the law has fewer tokens. It depends on
            the law alone, never on what was drawn.
    """

    tokens: Tensor
    lengths: Tensor


@dataclass(frozen=True, eq=False)
class MultiDraftVerification:
    """Outcome of one multi-draft verification; each row emits one token.

    Attributes:
        accepted: int64 [B], which candidate was accepted, 0 to K − 1; −1 for none.
        token: int64 [B], the accepted candidate, or the token resampled after the last rejection.
    """

    accepted: Tensor
    token: Tensor


@dataclass(frozen=True, eq=False)
class MultiDraftPlan:
    """What the coins are compared with.

    Attributes:
        probability: float64 [B, K], of accepting X_i once the earlier ones were rejected; 0 at and
            beyond a row's length.
        weights: float64 [B, V], p_{K+1}.
    """

    probability: Tensor
    weights: Tensor


def draw_without_replacement(draft_probs: Tensor, coins: Tensor) -> Candidates:
    """Draw X_1 ~ q, X_2 ~ norm(q without X_1), and so on, by inverse CDF over token ids.

    Args:
        draft_probs: float [B, V], q.
        coins: float [B, K], independent uniform draws in [0, 1), apart from those that judge.

    Returns:
        The candidates of each row, and how many the law could give.
    """
    K = coins.shape[1]
    weights = draft_probs.double()
    lengths = (weights > 0).sum(-1).clamp(max=K)
    tokens = []
    for i in range(K):
        token = inverse_cdf(weights, coins[:, i].double())
        tokens.append(token)
        weights = weights.scatter(1, token[:, None], 0)
    drawn = torch.stack(tokens, 1) if K else lengths.new_empty(len(lengths), 0)
    return Candidates(drawn.masked_fill(~real_positions(lengths, K), -1), lengths)


def multi_draft_acceptance(
    candidates: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    lengths: Tensor,
    *,
    replacement: bool = False,
) -> MultiDraftPlan:
    """The recursion of the module docstring for checked input; it does not depend on the coins."""
    B, K = candidates.shape
    one = torch.ones(B, dtype=torch.float64, device=candidates.device)
    state = Remainder(target_probs.double(), draft_probs.double(), one)
    probability = torch.zeros(B, K, dtype=torch.float64, device=candidates.device)
    for i in range(K):
        real = lengths > i
        token = candidates[:, i].where(real, 0)
        probability[:, i] = state.acceptance(token).where(real, 0)
        state = state.rejected(token, real, remove=not replacement and i + 1 < K)
    return MultiDraftPlan(probability, state.target)


def multi_draft_verification(
    candidates: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None = None,
    *,
    replacement: bool = False,
    validate: bool = True,
) -> MultiDraftVerification:
    """Accept at most one of K candidates for one position, else resample (arXiv 2402.14160).

    The law of the emitted token is the target's, at any draft law. K = 1 is token verification of
    one draft token.

    Args:
        candidates: int64 [B, K], in the order drawn; anything beyond a row's length.
        draft_probs: float [B, V], the law the first candidate was drawn from. The others must have
            been drawn from the rest of it, as ``draw_without_replacement`` does.
        target_probs: float [B, V], the target law at the position.
        coins: ``accept`` [B, K] judges, ``resample`` [B] draws the token after K rejections.
        lengths: int64 [B], real candidates per row; None means K. It may depend on the context, not
            on the candidates.
        replacement: the candidates are independent draws from ``draft_probs``.
        validate: False skips all checks.

    Returns:
        The accepted candidate and the emitted token per row.

    Raises:
        ValueError: malformed input, a repeated candidate, or one that its law cannot yield; the
        message names tensor, row and position.
    """
    if validate and candidates.dim() != 2:
        raise ConfigError(f"candidates: expected int64 [B, K], got {list(candidates.shape)}.")
    B, K = candidates.shape
    if lengths is None:
        lengths = torch.full((B,), K, dtype=torch.int64, device=candidates.device)
    if validate:
        _check(candidates, draft_probs, target_probs, coins, lengths, distinct=not replacement)
    plan = multi_draft_acceptance(
        candidates, draft_probs, target_probs, lengths, replacement=replacement
    )
    passed = coins.accept.double() < plan.probability
    drawn = inverse_cdf(plan.weights, coins.resample.double())
    # Place 0 stands for "none": it passes when nothing else does.
    places = torch.cat([~passed.any(-1, keepdim=True), passed], 1).long()
    first = places.argmax(-1)
    tokens = torch.cat([drawn[:, None], candidates], 1)
    return MultiDraftVerification(first - 1, tokens.gather(1, first[:, None])[:, 0])


def _check(
    candidates: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor,
    *,
    distinct: bool,
) -> None:
    B, K = candidates.shape
    V = target_probs.shape[-1] if target_probs.dim() else 0
    check_tensors(
        "candidates",
        candidates.device,
        [
            ("candidates", candidates, "int64", (B, K)),
            ("target_probs", target_probs, "float", (B, max(V, 1))),
            ("draft_probs", draft_probs, "float", (B, V)),
            ("coins.accept", coins.accept, "float", (B, K)),
            ("coins.resample", coins.resample, "float", (B,)),
            ("lengths", lengths, "int64", (B,)),
        ],
    )
    refuse("lengths", (lengths < 0) | (lengths > K), lengths, f"a length is 0 to {K}")
    real = real_positions(lengths, K)
    check_coins(coins, real)
    check_rows("target_probs", target_probs[:, None], torch.ones_like(lengths[:, None]).bool())
    check_rows("draft_probs", draft_probs[:, None], lengths[:, None] > 0)
    outside = real & ((candidates < 0) | (candidates >= V))
    refuse("candidates", outside, candidates, f"a token id is 0 to {V - 1}")
    drawable = draft_probs.gather(1, candidates.where(real, 0)) > 0
    refuse(
        "candidates",
        real & ~drawable,
        candidates,
        "draft_probs gives it probability 0; end the row before it by lengths",
    )
    if distinct:
        earlier = torch.ones(K, K, dtype=torch.bool, device=real.device).tril(-1)
        repeated = ((candidates[:, :, None] == candidates[:, None]) & earlier).any(-1)
        refuse(
            "candidates",
            real & repeated,
            candidates,
            "an earlier candidate is the same token; they are drawn without replacement",
        )
