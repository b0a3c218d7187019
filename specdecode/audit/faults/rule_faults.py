"""Ways to break a verification rule: what it accepts, how many it keeps, what it resamples from.

Each takes the parts of a correct rule and returns them with one of them wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from specdecode.audit.faults.parts import RuleParts
from specdecode.verification.resampling import (
    last_accepted,
    leading_run,
    next_token_weights,
    rows_at,
)
from specdecode.verification.types import AcceptancePlan, DraftBlock

Change = Callable[[RuleParts], RuleParts]

# Medusa's defaults: accept x when p(x) > min(epsilon, delta exp(-H(p))).
_TYPICAL_EPSILON, _TYPICAL_DELTA = 0.3, 0.09


def residual_is_target(parts: RuleParts) -> RuleParts:
    """After a rejection it draws from the target's law, and forgets to subtract the draft's."""
    return replace(parts, weights=_target_row)


def residual_unscaled(parts: RuleParts) -> RuleParts:
    """The residual leaves out the factor of the kept prefix, p_τ."""

    def acceptance(block: DraftBlock) -> AcceptancePlan:
        plan = parts.acceptance(block)
        return AcceptancePlan(plan.probability, torch.ones_like(plan.scale))

    return replace(parts, acceptance=acceptance)


def residual_absolute(parts: RuleParts) -> RuleParts:
    """The residual takes |p − q| where it should take the positive part."""

    def weights(block: DraftBlock, kept: Tensor, scale: Tensor) -> Tensor:
        right = next_token_weights(block, kept, scale).double()
        factor = scale.gather(1, kept[:, None])
        wrong = (factor * rows_at(block.target_probs, kept) - _draft_row(block, kept)).abs()
        use = (kept < block.lengths) & (wrong.amax(-1) > 0)
        return torch.where(use[:, None], wrong, right)

    return replace(parts, weights=weights)


def residual_softmaxed(parts: RuleParts) -> RuleParts:
    """The residual, already a law up to its sum, goes through a softmax as if it were logits."""

    def weights(block: DraftBlock, kept: Tensor, scale: Tensor) -> Tensor:
        right = next_token_weights(block, kept, scale).double()
        return torch.where((kept < block.lengths)[:, None], torch.softmax(right, -1), right)

    return replace(parts, weights=weights)


def stops_at_first_rejection(parts: RuleParts) -> RuleParts:
    """Block verification ends at the first rejected token, as token verification does."""
    return replace(parts, count=leading_run)


def keeps_past_rejection(parts: RuleParts) -> RuleParts:
    """Token verification goes on to the last token that passes, as block verification does."""
    return replace(parts, count=last_accepted)


def accepts_by_ratio(parts: RuleParts) -> RuleParts:
    """Block verification accepts by the running ratio p_i, without looking one position ahead."""

    def acceptance(block: DraftBlock) -> AcceptancePlan:
        scale = parts.acceptance(block).scale
        return AcceptancePlan(scale[:, 1:], scale)

    return replace(parts, acceptance=acceptance)


def accepts_by_next_row(parts: RuleParts) -> RuleParts:
    """Draft token i is judged by the target's row after it: an index that is off by one."""

    def acceptance(block: DraftBlock) -> AcceptancePlan:
        rolled = block.target_probs.roll(-1, dims=1)
        return parts.acceptance(replace(block, target_probs=rolled))

    return replace(parts, acceptance=acceptance)


def lenient(threshold: float) -> Change:
    """Acceptance probabilities are divided by a threshold below 1, for speed."""

    def change(parts: RuleParts) -> RuleParts:
        def acceptance(block: DraftBlock) -> AcceptancePlan:
            plan = parts.acceptance(block)
            return AcceptancePlan((plan.probability / threshold).clamp(max=1), plan.scale)

        return replace(parts, acceptance=acceptance)

    return change


def typical_acceptance(parts: RuleParts) -> RuleParts:
    """Accept whatever the target finds typical, by no comparison with the draft (Medusa)."""

    def acceptance(block: DraftBlock) -> AcceptancePlan:
        laws = block.target_probs[:, :-1].double()
        likely = laws.gather(-1, block.draft_tokens[:, :, None])[:, :, 0]
        entropy = torch.special.entr(laws).sum(-1)
        limit = (_TYPICAL_DELTA * (-entropy).exp()).clamp(max=_TYPICAL_EPSILON)
        plan = parts.acceptance(block)
        return AcceptancePlan((likely > limit).double(), plan.scale)

    return RuleParts(acceptance, parts.count, _target_row)


def bonus_one_row_early(parts: RuleParts) -> RuleParts:
    """After a block that was kept whole the bonus token comes from the row before the last."""
    return replace(parts, weights=_bonus(lambda block, at: rows_at(block.target_probs, at - 1)))


def bonus_from_draft(parts: RuleParts) -> RuleParts:
    """The bonus token is drawn from the draft's last law."""
    return replace(parts, weights=_bonus(lambda block, at: rows_at(block.draft_probs, at - 1)))


def bonus_is_argmax(parts: RuleParts) -> RuleParts:
    """The bonus token is the target's likeliest one, although a sample was asked for."""

    def best(block: DraftBlock, at: Tensor) -> Tensor:
        row = rows_at(block.target_probs, at)
        return torch.nn.functional.one_hot(row.argmax(-1), row.shape[-1]).to(row.dtype)

    return replace(parts, weights=_bonus(best))


def coin_used_twice(parts: RuleParts) -> RuleParts:
    """The coin that rejected a token also draws the next one, so that it is never a low one.

    A coin that rejected lies in [h, 1): the tokens it can pick are those whose cells of the CDF lie
    there. Drawing from these cells with a fresh coin gives the same law.
    """

    def weights(block: DraftBlock, kept: Tensor, scale: Tensor) -> Tensor:
        right = next_token_weights(block, kept, scale).double()
        upto = (right / right.sum(-1, keepdim=True)).cumsum(-1).clamp(max=1)
        h = parts.acceptance(block).probability
        at = kept.clamp(max=h.shape[1] - 1)[:, None]
        borders = torch.maximum(upto, h.gather(1, at))
        left = torch.diff(borders, dim=-1, prepend=h.gather(1, at)).clamp(min=0)
        use = (kept < block.lengths) & (left.amax(-1) > 0)
        return torch.where(use[:, None], left, right)

    return replace(parts, weights=weights)


def _bonus(row: Callable[[DraftBlock, Tensor], Tensor]) -> Callable[..., Tensor]:
    def weights(block: DraftBlock, kept: Tensor, scale: Tensor) -> Tensor:
        right = next_token_weights(block, kept, scale).double()
        whole = (kept == block.lengths) & (kept > 0)
        return torch.where(whole[:, None], row(block, kept.clamp(min=1)).double(), right)

    return weights


def _target_row(block: DraftBlock, kept: Tensor, scale: Tensor) -> Tensor:
    del scale
    return rows_at(block.target_probs, kept)


def _draft_row(block: DraftBlock, kept: Tensor) -> Tensor:
    return rows_at(block.draft_probs, kept.clamp(max=block.draft_probs.shape[1] - 1)).double()
