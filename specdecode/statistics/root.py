"""The end of a betting interval: where a wealth that falls with the supposed mean is enough."""

from __future__ import annotations

from collections.abc import Callable

TOLERANCE = 1e-11
"""Ends are known to this accuracy, and rounded outwards."""


def last_reached(
    excess: Callable[[float], float], inside: float, above: float, step: float
) -> tuple[float, float]:
    """Where a function that does not increase falls below 0, between `inside` and 1.

    Bracketing secant steps (Illinois rule: an end that stays twice has its value halved).

    Args:
        excess: the function; at 1 it is negative, for K^+ is at most 1 there.
        inside: a place where it is not negative.
        above: its value there.
        step: first guess of the way to go.

    Returns:
        The place and the value there, which is not negative: rounding only widens the interval.
    """
    outside = min(1.0, inside + step)
    while outside < 1 and (value := excess(outside)) >= 0:
        inside, above, step = outside, value, 4 * step
        outside = min(1.0, inside + step)
    below = excess(outside)
    left, right, kept = above, below, 0
    while outside - inside > TOLERANCE:
        middle = inside + (outside - inside) * left / (left - right)
        margin = min(TOLERANCE, (outside - inside) / 4)
        middle = min(max(middle, inside + margin), outside - margin)
        value = excess(middle)
        if value >= 0:
            inside, above, left = middle, value, value
            right = right / 2 if kept > 0 else right
            kept = 1
        else:
            outside, right = middle, value
            left = left / 2 if kept < 0 else left
            kept = -1
    return inside, above
