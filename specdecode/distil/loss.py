"""What training lowers: total variation distance to the target's law, and some KL divergence.

The chance that a draft token is accepted is Σ_x min(p(x), q(x)) = 1 - d_TV(p, q), so the distance
is what matters (Zhou et al. 2024, "DistillSpec", arXiv 2310.08461). Where p and q hardly overlap
its gradient vanishes, and that of KL(p || q) does not; hence both.

Of p only the K most likely tokens are stored. All others count as one event, "the tail", on both
sides. That makes the overlap an upper bound here, never the number a report may show. How q is
spread within the tail is learned from the tokens that were drawn from there: by the chain rule of
KL the mean of -log(q(y) / q(tail)) over them is the part that is missing, if y was drawn at
temperature 1. At lower ones the tail is drawn from less often, and weighs less.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_LEAST = 1e-9


class Wanted(NamedTuple):
    """The target's law after R texts, as it is stored.

    Attributes:
        places: int64 `[R, K]`, which of the draft's M tokens each stored token is; -1 if none.
        probs: float `[R, K]`, the target's probabilities of the stored tokens.
        tail: float `[R]`, of all others.
        drawn: int64 `[R]`, the place of the token that was drawn; -1 if it is none of the M.
    """

    places: Tensor
    probs: Tensor
    tail: Tensor
    drawn: Tensor

    @property
    def asked(self) -> Tensor:
        """Int64 `[R, K + 1]`: all that the loss asks of the draft are its logs at these places."""
        return torch.cat([self.places, self.drawn[:, None]], 1).clamp_min(0)

    def rows(self, rows: slice) -> Wanted:
        """Some of the texts."""
        return Wanted(*(part[rows] for part in self))


class Terms(NamedTuple):
    """Means over rows, each a scalar tensor.

    Attributes:
        tv: 1 - overlap, in 0..1.
        kl: KL(p || q) over the tokens the draft can propose and the tail, up to a constant that
            hangs on p alone.
    """

    tv: Tensor
    kl: Tensor


def distance(logits: Tensor, wanted: Wanted) -> Terms:
    """How far the draft is from the target.

    Args:
        logits: float `[R, M]` over the M tokens the draft can propose.
        wanted: the target's law.
    """
    log_q = logits.float().log_softmax(-1).gather(-1, wanted.asked)
    return Terms(*(part.mean() for part in row_terms(log_q, wanted)))


def row_terms(log_q: Tensor, wanted: Wanted) -> Terms:
    """Both terms of each row, `[R]`.

    Args:
        log_q: float `[R, K + 1]`, logs of the draft's probabilities at `wanted.asked`.
        wanted: the target's law.
    """
    places, probs, tail, drawn = wanted
    own, log_drawn = log_q[:, :-1], log_q[:, -1]
    known = places >= 0
    q = own.exp() * known
    q_tail = (1 - q.sum(-1)).clamp_min(_LEAST)
    overlap = torch.minimum(probs, q).sum(-1) + torch.minimum(tail, q_tail)
    # p·log p - p·log q, with 0·log 0 = 0; a token the draft cannot propose has no finite share.
    inside = torch.xlogy(probs, probs) - probs * own.masked_fill(~known, 0.0)
    kl = (inside * known).sum(-1) + torch.xlogy(tail, tail) - tail * q_tail.log()
    in_tail = (drawn >= 0) & (places != drawn[:, None]).all(-1)
    return Terms(1 - overlap, kl + (q_tail.log() - log_drawn) * in_tail)
