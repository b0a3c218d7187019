"""The arithmetic all rules share: sums in a fixed order, residuals, inverse CDF, counting.

A library sum or cumulative sum adds in an order that depends on device, thread count and vector
width, and two orders differ in the last bits. Here each addition is an elementwise operation of its
own, which IEEE 754 fixes to the bit, so a result cannot depend on where or next to what a row was
computed.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdecode.verification.types import DraftBlock, Verification
from specdecode.verification.validation import real_positions

# Children of a node of the sum tree: enough that three levels hold a quarter of a million tokens.
_CHILDREN = 64


def fixed_order_sum(values: Tensor) -> Tensor:
    """Sum over the last dimension, float64 [..., V] -> [...], folding one half onto the other."""
    size = values.shape[-1]
    while size > 1:
        half = (size + 1) // 2
        folded = values[..., : size - half] + values[..., half:]
        # An odd size leaves the middle element without a partner; it waits for the next fold.
        values = folded if size % 2 == 0 else torch.cat([folded, values[..., half - 1 : half]], -1)
        size = half
    return values[..., 0]


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """Pick token ids by inverse CDF over ids 0, 1, ..., V - 1.

    Descends a tree of sums, 64 children a node: to the last child that has mass and whose preceding
    siblings together weigh at most ``uniform * total``, less what was passed on the way. A child
    without mass is never entered, so neither a coin of 0 before leading zeros nor a coin just below
    1 can yield a token of weight zero.

    Args:
        weights: float64 [B, V], non-negative, not necessarily normalised.
        uniform: float64 [B], in [0, 1).

    Returns:
        int64 [B]. Where a row has no mass at all, 0.
    """
    rows = torch.arange(weights.shape[0], device=weights.device)
    places = torch.arange(_CHILDREN, device=weights.device)
    levels, total = [], weights
    while total.shape[-1] > 1:
        total = pad(total, (0, -total.shape[-1] % _CHILDREN)).unflatten(-1, (-1, _CHILDREN))
        levels.append(total)
        total = fixed_order_sum(total)
    goal = uniform * total[:, 0]
    index = torch.zeros_like(rows)
    for children in reversed(levels):
        mass = children[rows, index]
        before = _preceding_sums(mass)
        child = (((mass > 0) & (before <= goal[:, None])) * places).amax(-1)
        goal = goal - before[rows, child]
        index = _CHILDREN * index + child
    return index


def _preceding_sums(values: Tensor) -> Tensor:
    """Sum of the values before each, float64 [B, N] -> [B, N], by doubling steps."""
    sums, step = pad(values[:, :-1], (1, 0)), 1
    while step < values.shape[-1]:
        sums = sums + pad(sums[:, :-step], (step, 0))
        step *= 2
    return sums


def residual(
    target_row: Tensor, draft_row: Tensor, scale: Tensor, whole: Tensor | None = None
) -> Tensor:
    """Weights (scale · p − q)_+, float64 [B, V], not normalised.

    Rows where that is zero everywhere give p itself: exact arithmetic never resamples from an empty
    residual, but rounding and dishonest draft laws can. So do rows marked in ``whole``, bool [B].
    """
    difference = (scale[:, None] * target_row).sub_(draft_row).clamp_(min=0)
    plain = ~(difference.amax(-1) > 0)
    if whole is not None:
        plain = plain | whole
    return torch.where(plain[:, None], target_row, difference)


def next_token_weights(block: DraftBlock, num_accepted: Tensor, scale: Tensor) -> Tensor:
    """Weights, float64 [B, V], of the token after the kept ones.

    Args:
        block: the checked input.
        num_accepted: int64 [B], τ.
        scale: float64 [B, G + 1], factor of the target law per τ.

    Returns:
        Target row τ where the whole row was kept, the residual at τ otherwise.
    """
    B, G = block.draft_tokens.shape
    rows = torch.arange(B, device=num_accepted.device)
    target_row = block.target_probs[rows, num_accepted].double()
    if G == 0:
        return target_row
    draft_row = block.draft_probs[rows, num_accepted.clamp(max=G - 1)]
    whole = num_accepted == block.lengths
    return residual(target_row, draft_row, scale[rows, num_accepted], whole)


def emit(block: DraftBlock, num_accepted: Tensor, scale: Tensor, resample: Tensor) -> Verification:
    """Finish a verification: draw the token after the kept ones with coin ``resample`` [B]."""
    weights = next_token_weights(block, num_accepted, scale)
    return Verification(num_accepted, inverse_cdf(weights, resample.double()))


def chosen(probs: Tensor, position: int, tokens: Tensor) -> Tensor:
    """Probability, float64 [B], of ``tokens`` [B] in row ``position`` of ``probs`` [B, R, V]."""
    return probs[:, position].gather(-1, tokens[:, None])[:, 0].double()


def extend_ratio(ratio: Tensor, target: Tensor, draft: Tensor) -> Tensor:
    """Extend a ratio by one token: ratio · p(x) / q(x), float64 [B]; 0 where the numerator is 0.

    A draft token of q = 0 was not drawn from q. Should one arrive all the same, its ratio is
    infinite where the target allows it and 0 where not, so that a token of target probability 0
    never passes.
    """
    numerator = ratio * target
    return torch.where(numerator == 0, numerator, numerator / draft)


def passed(accept: Tensor, probability: Tensor, lengths: Tensor) -> Tensor:
    """Mask [B, G] of coins below h; strictly, so that h = 0 never passes and h = 1 always does."""
    return (accept.double() < probability) & real_positions(lengths, accept.shape[1])


def leading_run(accepted: Tensor) -> Tensor:
    """int64 [B]: positions before the first False of ``accepted`` [B, G]."""
    return accepted.long().cumprod(-1).sum(-1)


def last_accepted(accepted: Tensor) -> Tensor:
    """int64 [B]: 1-based position of the last True of ``accepted`` [B, G], 0 without one."""
    B, G = accepted.shape
    if G == 0:
        return torch.zeros(B, dtype=torch.int64, device=accepted.device)
    places = torch.arange(1, G + 1, device=accepted.device)
    return (accepted * places).amax(-1)
