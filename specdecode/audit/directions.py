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
    tail      p given that the token is far less likely than the likeliest: a filter that was not
              asked for cuts it off (the bet against), a filter that was skipped lets it in
    order     p tilted towards tokens late in the vocabulary, 2 F p with F its CDF: a coin that is
              used twice, cumulative sums that lose the last tokens or jump to them
    repeat    p given that the token stands among the last ones: penalties that were skipped or
              count twice, states that were not rolled back
    latest    p given that it stands among the very last ones: penalties that do not count the
              tokens of the block under way

Clipping at 2 keeps the bet bounded, which is what makes any stake between -1/2 and 1 safe. What
numerical noise in p does to the mean is measured, see `specdecode.audit.drift`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

LARGEST_RATIO = 2.0
# Tokens of the context that count as "the last ones".
RECENT = 64
# As many as a step usually drafts.
LATEST = 4
# Below this share of the largest probability lies the tail: where top-p, top-k and min-p cut.
_TAIL = 0.05

# p [R, V], q [R, V] or None, recent [R, W] or None -> a / p, defined where p > 0, 0 elsewhere.
Direction = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]


def _towards_draft(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del recent
    if q is None:
        raise ValueError("the draft direction needs the draft's rows")
    inside = q.to(p.dtype).masked_fill(p <= 0, 0.0)
    mass = inside.sum(-1, keepdim=True)
    # A draft without mass on the support bets on nothing: 0 / 0 becomes 0, and r = 0.
    return _over(inside, p * mass)


def _sharper(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del q, recent
    return p / p.square().sum(-1, keepdim=True)


def _flatter(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del q, recent
    roots = p.sqrt()
    return _over(torch.ones_like(p), roots * roots.sum(-1, keepdim=True))


def _tail(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del q, recent
    return _given((p < _TAIL * p.amax(-1, keepdim=True)) & (p > 0), p)


def _order(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del q, recent
    # Half of the token's own mass counts as before it; so the mean under p is 1, whatever p is.
    return torch.where(p > 0, 2 * p.cumsum(-1) - p, torch.zeros_like(p))


def _repeat(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del q
    return _among(recent, RECENT, p)


def _latest(p: Tensor, q: Tensor | None, recent: Tensor | None) -> Tensor:
    del q
    return _among(recent, LATEST, p)


def _among(recent: Tensor | None, last: int, p: Tensor) -> Tensor:
    """P given that the token is one of so many before it, over p."""
    if recent is None:
        raise ValueError("the directions of the context need the recent tokens")
    # Missing entries (-1) are marked in a column of their own, which is cut off again.
    marks = torch.zeros((len(p), p.shape[-1] + 1), dtype=torch.bool, device=p.device)
    at = recent[:, -last:].to(p.device)
    marks.scatter_(1, at.where(at >= 0, p.shape[-1]), value=True)
    return _given(marks[:, :-1], p)


def _given(inside: Tensor, p: Tensor) -> Tensor:
    """P conditioned on a set, over p; a set without mass bets on nothing."""
    members = inside.to(p.dtype)
    return _over(members, (members * p).sum(-1, keepdim=True))


def _over(above: Tensor, below: Tensor) -> Tensor:
    return torch.where(below > 0, above / below, torch.zeros_like(above))


_FROM_TARGET: Mapping[str, Direction] = {
    "sharper": _sharper,
    "flatter": _flatter,
    "tail": _tail,
    "order": _order,
}
_FROM_DRAFT: Mapping[str, Direction] = {"draft": _towards_draft}
_FROM_CONTEXT: Mapping[str, Direction] = {"repeat": _repeat, "latest": _latest}


def directions(*, with_draft: bool, with_recent: bool = False) -> Mapping[str, Direction]:
    """The alternatives in use, by name; those that need draft or context only where known."""
    return {
        **(_FROM_DRAFT if with_draft else {}),
        **_FROM_TARGET,
        **(_FROM_CONTEXT if with_recent else {}),
    }


def recent_tokens(prompt: Sequence[int], output: Sequence[int], start: int, stop: int) -> Tensor:
    """The last `RECENT` tokens before each output position start..stop-1.

    Returns:
        int64 [stop - start, RECENT], -1 where the context is shorter.
    """
    context = [-1] * RECENT + [*prompt[-RECENT:], *output[:stop]]
    first = len(context) - stop + start  # place of output[start]
    return torch.tensor(context).unfold(0, RECENT, 1)[
        first - RECENT : first - RECENT + stop - start
    ]


def centred_bets(
    p: Tensor,
    tokens: Tensor,
    q: Tensor | None,
    chosen: Mapping[str, Direction],
    recent: Tensor | None = None,
) -> Tensor:
    """The bet r of every row in every direction.

    Args:
        p: float [R, V], target probabilities; rows sum to 1 up to rounding.
        tokens: int64 [R], emitted tokens.
        q: float [R, V], draft probabilities at the same prefixes, or None.
        chosen: the directions, in column order.
        recent: int64 [R, W], the last tokens before each (-1: none), or None; see `recent_tokens`.

    Returns:
        float64 [R, D], each entry in [-1, 2]. A token with p = 0 gets 0: it is judged elsewhere,
        as a violation and not as evidence.
    """
    at = tokens.unsqueeze(-1)
    impossible = p.gather(-1, at).squeeze(-1) <= 0
    columns = []
    for g, mean in _weights(p, q, chosen, recent):
        r = g.gather(-1, at).squeeze(-1).to(torch.float64) - mean
        columns.append(r.masked_fill(impossible, 0.0))
    return torch.stack(columns, dim=-1)


def expected_bets(
    p: Tensor,
    law: Tensor,
    q: Tensor | None,
    chosen: Mapping[str, Direction],
    recent: Tensor | None = None,
) -> Tensor:
    """The mean of `centred_bets` when tokens are drawn from another law than p.

    Args:
        p: see `centred_bets`.
        law: float [R, V], what tokens are drawn from.
        q: see `centred_bets`.
        chosen: see `centred_bets`.
        recent: see `centred_bets`.

    Returns:
        float64 [R, D].
    """
    possible = law.to(torch.float64).masked_fill(p <= 0, 0.0)
    mass = possible.sum(-1)
    means = [
        (possible * g).sum(-1, dtype=torch.float64) - mass * mean
        for g, mean in _weights(p, q, chosen, recent)
    ]
    return torch.stack(means, dim=-1)


def _weights(
    p: Tensor, q: Tensor | None, chosen: Mapping[str, Direction], recent: Tensor | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Weights g [R, V] and their mean under p, float64 [R], by direction."""
    total = p.sum(-1, dtype=torch.float64)
    for direction in chosen.values():
        g = direction(p, q, recent).clamp(max=LARGEST_RATIO)
        # float64 sums and the division by the row's own total keep rounding from leaning one way.
        yield g, (p * g).sum(-1, dtype=torch.float64) / total
