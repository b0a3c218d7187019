"""Ties at the edge of a truncated distribution.

top-k, top-p and min-p cut the law at a border. Two correct forward passes differ by rounding, so a
token just outside the reference's border may lie just inside the engine's. Such a token is a tie,
not a violation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdecode.audit.laws import amplification, row_law, unfiltered
from specdecode.audit.row import AuditRow
from specdecode.decoding.distributions import distributions
from specdecode.decoding.params import SamplingParams

# Keeps competitors strictly below the raised token after float32 rounding.
_BELOW = 1e-3


def border_tie(logits: Tensor, row: AuditRow, position: int, tolerance: float) -> bool:
    """Whether some change of the raw logits by at most the tolerance lets the token through.

    The most favourable change raises the token by the tolerance, lowers every token that stays
    above it, and pulls the rest up to just below it; that is the best case for top-k (fewest
    tokens above), top-p (least mass above) and min-p (smallest maximum) at once.

    Args:
        logits: float [V], raw target logits of this position.
        row: a sampled row (temperature above 0).
        position: output position whose token has probability 0 under the reference.
        tolerance: largest numerical change of a raw logit.
    """
    params, token = row.params, row.output[position]
    full = row_law(logits.unsqueeze(0), row, position, unfiltered(params))[0]
    if full[token] <= 0:
        return False  # excluded by more than a filter: a bias, or nothing at all
    scaled = full.log()
    slack = tolerance * amplification(params) / params.temperature
    raised = scaled[token] + slack
    stays_above = scaled - slack > raised
    changed = torch.where(stays_above, scaled - slack, (scaled + slack).clamp(max=raised - _BELOW))
    changed[token] = raised
    filters_only = SamplingParams(
        temperature=1.0, top_k=params.top_k, top_p=params.top_p, min_p=params.min_p
    )
    return bool(distributions(changed.unsqueeze(0), filters_only)[0, token] > 0)
