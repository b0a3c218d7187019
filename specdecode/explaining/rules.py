"""Does a trace obey its rule? Coins, p and q of a step allow some outcomes and no others.

With "token" every decision can be checked. With "block" the look-ahead h_i is not in a trace, only
its bounds: h_i <= p_i, with equality for the last token of a block, and h_i = 1 where p_i = 1 (see
docs/decoding.md). What the bounds leave open is not called wrong. The other rules judge by laws
that a trace does not hold, and are not checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from specdecode.decoding.trace import StepTrace

CHECKED = ("token", "block")
# Probabilities are recorded as they are, but a rule may multiply them in another order.
_SLACK = 1e-9


def running_ratios(step: StepTrace) -> list[float]:
    """p_i = min(1, p_(i-1) · p / q) along the draft tokens of a step; 0 where q is 0."""
    ratios = (
        p / q if q > 0 else 0.0 for p, q in zip(step.target_probs, step.draft_probs, strict=True)
    )
    return list(accumulate(ratios, lambda before, ratio: min(1.0, before * ratio), initial=1.0))[1:]


def first_fault(steps: Sequence[StepTrace], rule: str | None) -> str | None:
    """Say which decision the coins do not allow; None when all of them are in order.

    Args:
        steps: a trace.
        rule: verification rule; one that is not in `CHECKED` finds nothing.
    """
    check = {"token": _token, "block": _block}.get(rule or "")
    if check is None:
        return None
    return next((fault for step in steps if (fault := check(step)) is not None), None)


def _token(step: StepTrace) -> str | None:
    for place, coin in enumerate(step.accept_coins):
        p, q = step.target_probs[place], step.draft_probs[place]
        if place < step.num_accepted and coin * q >= p + _SLACK:
            return _said(step, place, "was kept although its coin is not below p / q")
        if place == step.num_accepted and coin * q < p - _SLACK:
            return _said(step, place, "was dropped although its coin is below p / q")
    return None


def _block(step: StepTrace) -> str | None:
    ratios, kept = running_ratios(step), step.num_accepted
    if kept and step.accept_coins[kept - 1] >= ratios[kept - 1] + _SLACK:
        return _said(step, kept - 1, "ends the kept prefix although its coin is not below p_i")
    for place in range(kept, len(ratios)):
        certain = place == len(ratios) - 1 or ratios[place] == 1.0
        if certain and step.accept_coins[place] < ratios[place] - _SLACK:
            return _said(step, place, "was dropped although its coin is below h_i = p_i")
    return None


def _said(step: StepTrace, place: int, what: str) -> str:
    return f"step {step.step}: draft token {place + 1} {what}"
