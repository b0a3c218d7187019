"""Bets that are fair exactly when a token was drawn from the target's distribution.

Symbols: p [R, V] target rows, y [R] emitted tokens, a [R, V] an alternative law on the support of
p. With g = min(a / p, 2), the centred bet

    r = g(y) - sum_x p(x) g(x)                                              lies in [-1, 2]

has mean 0 under y ~ p, whatever a is, as long as a depends only on what came before y. Its mean is
positive when the tokens lean towards a and negative when they lean away, so each alternative is
one direction to look in:

    draft     the draft's law, restricted to the support of p: wrong verification leans there
    sharper   p^2, normalised: a temperature that is too low or ignored, argmax in place of sampling
    flatter   p^(1/2), normalised: a temperature that is too high, penalties or filters skipped

Clipping at 2 keeps the bet bounded, which is what makes any stake between -1/2 and 1 safe. What
numerical noise in p does to the mean is measured, see `specdecode.audit.drift`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

LARGEST_RATIO = 2.0

# p [R, V], q [R, V] or None -> a / p, defined where p > 0 and 0 elsewhere.
Direction = Callable[[Tensor, Tensor | None], Tensor]


def _towards_draft(p: Tensor, q: Tensor | None) -> Tensor:
    if q is None:
        raise ValueError("the draft direction needs the draft's rows")
    inside = q.to(p.dtype).masked_fill(p <= 0, 0.0)
    mass = inside.sum(-1, keepdim=True)
    # A draft without mass on the support bets on nothing: 0 / 0 becomes 0, and r = 0.
    return _over(inside, p * mass)


def _sharper(p: Tensor, q: Tensor | None) -> Tensor:
    return p / p.square().sum(-1, keepdim=True)


def _flatter(p: Tensor, q: Tensor | None) -> Tensor:
    roots = p.sqrt()
    return _over(torch.ones_like(p), roots * roots.sum(-1, keepdim=True))


def _over(above: Tensor, below: Tensor) -> Tensor:
    return torch.where(below > 0, above / below, torch.zeros_like(above))


_FROM_TARGET: Mapping[str, Direction] = {"sharper": _sharper, "flatter": _flatter}
_FROM_DRAFT: Mapping[str, Direction] = {"draft": _towards_draft}


def directions(*, with_draft: bool) -> Mapping[str, Direction]:
    """The alternatives in use, by name; those that need the draft only when it is known."""
    return {**(_FROM_DRAFT if with_draft else {}), **_FROM_TARGET}


def centred_bets(
    p: Tensor, tokens: Tensor, q: Tensor | None, chosen: Mapping[str, Direction]
) -> Tensor:
    """The bet r of every row in every direction.

    Args:
        p: float [R, V], target probabilities; rows sum to 1 up to rounding.
        tokens: int64 [R], emitted tokens.
        q: float [R, V], draft probabilities at the same prefixes, or None.
        chosen: the directions, in column order.

    Returns:
        float64 [R, D], each entry in [-1, 2]. A token with p = 0 gets 0: it is judged elsewhere,
        as a violation and not as evidence.
    """
    at = tokens.unsqueeze(-1)
    impossible = p.gather(-1, at).squeeze(-1) <= 0
    columns = []
    for g, mean in _weights(p, q, chosen):
        r = g.gather(-1, at).squeeze(-1).to(torch.float64) - mean
        columns.append(r.masked_fill(impossible, 0.0))
    return torch.stack(columns, dim=-1)


def expected_bets(
    p: Tensor, law: Tensor, q: Tensor | None, chosen: Mapping[str, Direction]
) -> Tensor:
    """The mean of `centred_bets` when tokens are drawn from another law than p.

    Args:
        p: see `centred_bets`.
        law: float [R, V], what tokens are drawn from.
        q: see `centred_bets`.
        chosen: see `centred_bets`.

    Returns:
        float64 [R, D].
    """
    possible = law.to(torch.float64).masked_fill(p <= 0, 0.0)
    mass = possible.sum(-1)
    means = [
        (possible * g).sum(-1, dtype=torch.float64) - mass * mean
        for g, mean in _weights(p, q, chosen)
    ]
    return torch.stack(means, dim=-1)


def _weights(
    p: Tensor, q: Tensor | None, chosen: Mapping[str, Direction]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Weights g [R, V] and their mean under p, float64 [R], by direction."""
    total = p.sum(-1, dtype=torch.float64)
    for direction in chosen.values():
        g = direction(p, q).clamp(max=LARGEST_RATIO)
        # float64 sums and the division by the row's own total keep rounding from leaning one way.
        yield g, (p * g).sum(-1, dtype=torch.float64) / total
