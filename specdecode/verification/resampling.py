"""The arithmetic all rules share: sums in a fixed order, residuals, inverse CDF, counting.

A library sum or cumulative sum of floats adds in an order that depends on device, thread count and
vector width, and two orders differ in the last bits. Here floats are added by elementwise
operations, which IEEE 754 fixes to the bit, or as whole numbers, whose sum has no order at all. So
a result cannot depend on where or next to what a row was computed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specdecode.verification.types import DraftBlock, Verification
from specdecode.verification.validation import real_positions

_SMALLEST = 1e-307  # keeps the scale of an empty row finite
_LARGEST = 1e300  # in place of infinity, which times a ratio of 0 would be NaN


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


def order_free_sum(values: Tensor, most: float = math.inf) -> Tensor:
    """Sum over the last dimension of values >= 0, the same in whatever order they are added.

    Each value is first rounded to a multiple of the last place of a bound on the total, by adding
    that bound and taking it away again; sums of such multiples are exact (Demmel and Nguyen 2013,
    "Fast Reproducible Floating-Point Summation"). Cheaper than ``fixed_order_sum``, and coarser:
    each value is off by at most half that place.

    Args:
        values: float64 [..., V].
        most: what no total exceeds, if known: the bound is that or V times the largest value.
    """
    bound = (values.amax(-1, keepdim=True) * values.shape[-1]).clamp_(max=most)
    return (values + bound).sub_(bound).sum(-1)


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """Pick token ids by inverse CDF over ids 0, 1, ..., V - 1.

    Weights are counted in whole units of 2^-(62 - log2 V) of the row's largest, the finest that can
    be summed in 64 bits. A token below one unit (1e-14 of the largest at V = 49 152) is not drawn;
    with up to 512 tokens no weight that a float64 could add to the others is lost.

    Args:
        weights: float [B, V], non-negative, not necessarily normalised.
        uniform: float64 [B], in [0, 1).

    Returns:
        int64 [B], never a token of weight zero. Where a row has no mass at all, 0.
    """
    units = 2.0 ** (62 - (weights.shape[-1] - 1).bit_length())
    largest = weights.amax(-1, keepdim=True).double()
    per_weight = (units / largest.clamp_(min=_SMALLEST)).clamp_(max=_LARGEST)
    upto = (per_weight * weights).to(torch.int64).cumsum_(-1)
    total = upto[:, -1:]
    # A coin just below 1 may round up to the total, which lies beyond the last token.
    goal = torch.minimum((uniform[:, None] * total).to(torch.int64), total - 1)
    return torch.searchsorted(upto, goal, right=True)[:, 0]


def residual(target_row: Tensor, draft_row: Tensor, scale: Tensor) -> Tensor:
    """Weights (scale · p − q)_+, float64 [B, V], not normalised.

    Rows where that is zero everywhere give p itself: exact arithmetic never resamples from an empty
    residual, but rounding and dishonest draft laws can.
    """
    # A copy even of float64: the row may be a view of what the caller passed in.
    weighed = target_row.to(torch.float64, copy=True).mul_(scale[:, None])
    difference = weighed.sub_(draft_row).clamp_(min=0)
    empty = ~(difference.amax(-1) > 0)
    if bool(empty.any()):
        difference[empty] = target_row[empty].double()
    return difference


def next_token_weights(block: DraftBlock, num_accepted: Tensor, scale: Tensor) -> Tensor:
    """Weights, float [B, V], of the token after the kept ones.

    Args:
        block: the checked input.
        num_accepted: int64 [B], τ.
        scale: float64 [B, G + 1], factor of the target law per τ.

    Returns:
        Target row τ where the whole row was kept, the residual at τ otherwise.
    """
    target_row = rows_at(block.target_probs, num_accepted)
    whole = num_accepted == block.lengths
    if bool(whole.all()):
        return target_row
    draft_row = rows_at(block.draft_probs, num_accepted.clamp(max=block.draft_probs.shape[1] - 1))
    factor = scale.gather(1, num_accepted[:, None])[:, 0]
    if bool(whole.any()):  # with nothing to subtract the residual is the target row itself
        factor, draft_row = factor.masked_fill(whole, 1), draft_row.masked_fill(whole[:, None], 0)
    return residual(target_row, draft_row, factor)


def rows_at(probs: Tensor, positions: Tensor, rows: Tensor | None = None) -> Tensor:
    """Row ``positions[k]`` of batch row ``rows[k]`` (or k), [K, V] out of [B, R, V]."""
    if rows is None and probs.shape[0] == 1:
        return probs[:, int(positions)]  # nothing to gather, nothing to copy
    if rows is None:
        rows = torch.arange(probs.shape[0], device=probs.device)
    if not probs.is_contiguous():
        return probs[rows, positions]
    return probs.flatten(0, 1).index_select(0, rows * probs.shape[1] + positions)


def emit(block: DraftBlock, num_accepted: Tensor, scale: Tensor, resample: Tensor) -> Verification:
    """Finish a verification: draw the token after the kept ones with coin ``resample`` [B].

    A CPU goes row by row, within its caches; anything else takes the batch at once.
    """
    B = num_accepted.shape[0]
    at_once = 1 if num_accepted.device.type == "cpu" else max(B, 1)
    drawn = []
    for first in range(0, B, at_once):
        part = slice(first, first + at_once)
        rows = DraftBlock(
            block.draft_tokens[part],
            block.draft_probs[part],
            block.target_probs[part],
            block.lengths[part],
        )
        weights = next_token_weights(rows, num_accepted[part], scale[part])
        drawn.append(inverse_cdf(weights, resample[part].double()))
    return Verification(num_accepted, torch.cat(drawn) if drawn else num_accepted)


def chosen(probs: Tensor, position: int, tokens: Tensor) -> Tensor:
    """Probability, float64 [B], of ``tokens`` [B] in row ``position`` of ``probs`` [B, R, V]."""
    return probs[:, position].gather(-1, tokens[:, None])[:, 0].double()


def token_ratios(block: DraftBlock) -> Tensor:
    """p(X_i) / q(X_i) of every draft token, float64 [B, G]; 0 where p is, at most 1e300."""
    index = block.draft_tokens[:, :, None]
    p = block.target_probs.gather(-1, index)[:, :, 0].double()
    q = block.draft_probs.gather(-1, index)[:, :, 0].double()
    return torch.where(p == 0, p, (p / q).clamp_(max=_LARGEST))


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
