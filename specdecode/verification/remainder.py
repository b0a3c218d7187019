"""What rejected children leave of the target and draft laws at a node of a draft tree.

A node v stands for a kept prefix. Its state is a scaled target law p_v · T and the law Q that the
next child is drawn from. A child x passes on min(1, p_v · T(x) / Q(x)); when x and everything below
it is rejected,

    R = Σ_y (p_v · T(y) − Q(y))_+
    T ← (p_v · T − Q)_+ / R
    p_v ← R / (R + 1 − p_v), with 0/0 = 1
    Q ← norm(Q without x)

One candidate after another at a single position is the case p_v = 1, which stays 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.verification.resampling import extend_ratio, fixed_order_sum


@dataclass(frozen=True, eq=False)
class Remainder:
    """State of one node, a row per request.

    Attributes:
        target: float64 [B, V], T.
        draft: float64 [B, V], Q; all zero once every token of the law was drawn.
        ratio: float64 [B], p_v: the probability with which v would be kept by itself.
    """

    target: Tensor
    draft: Tensor
    ratio: Tensor

    def acceptance(self, token: Tensor) -> Tensor:
        """min(1, p_v · T(x) / Q(x)), float64 [B], of child tokens x, int64 [B].

        0 where the numerator is 0, whatever Q: a token the target excludes never passes.
        """
        p, q = _of(self.target, token), _of(self.draft, token)
        return extend_ratio(self.ratio, p, q).clamp(max=1)

    def rejected(self, token: Tensor, real: Tensor, *, remove: bool = True) -> Remainder:
        """The state after child ``token`` and everything below it was rejected.

        Args:
            token: int64 [B], x.
            real: bool [B]; rows without this child keep their state.
            remove: False leaves Q as it is: the next child was drawn with replacement, or there is
                none.

        Returns:
            The new state. Where the positive part is zero everywhere T stays, for rounding and
            dishonest laws: exact arithmetic gets there with probability 0, or with p_v = 0.
        """
        excess = (self.ratio[:, None] * self.target).sub_(self.draft).clamp_(min=0)
        mass = fixed_order_sum(excess)
        denominator = mass + (1 - self.ratio)
        ratio = torch.where(denominator == 0, torch.ones_like(mass), mass / denominator)
        target = torch.where((mass > 0)[:, None], excess / mass[:, None], self.target)
        draft = self.draft
        if remove:
            draft = torch.where(real[:, None], without(draft, token), draft)
        return Remainder(
            torch.where(real[:, None], target, self.target),
            draft,
            torch.where(real, ratio, self.ratio),
        )


def without(law: Tensor, token: Tensor) -> Tensor:
    """norm(law without x), float64 [B, V]; all zero where nothing but x had mass.

    The rest is added up anew: 1 − law(x) would lose it when law(x) is close to 1.
    """
    rest = law.scatter(1, token[:, None], 0)
    mass = fixed_order_sum(rest)[:, None]
    return torch.where(mass > 0, rest / mass, rest)


def _of(law: Tensor, token: Tensor) -> Tensor:
    return law.gather(1, token[:, None])[:, 0]
