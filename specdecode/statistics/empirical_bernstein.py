"""Confidence sequence for a bounded mean in closed form, for streams too long to keep.

    [ sum lambda_i X_i -+ (log(2/alpha) + sum (X_i - mu_{i-1})^2 psi(lambda_i)) ] / sum lambda_i,
    psi(lambda) = -log(1 - lambda) - lambda,   lambda_i = min(lambda_i^pr, c)

with mu and lambda^pr of `plug_in`; one-sided, log(1/alpha) takes the place of log(2/alpha). Memory
and work per value do not grow with t. The price is width: prefer `betting` where the values fit in
memory.

Source: I. Waudby-Smith and A. Ramdas, JRSS-B 86 (2024), arXiv 2010.09686, theorem 2. The paper
writes psi/4 together with 4 (X - mu)^2.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from specdecode.statistics.plug_in import PlugIn
from specdecode.statistics.sequential import (
    ConfidenceSequence,
    FloatArray,
    check_inside,
    one_dimensional,
    unit_values,
)

Sides = Literal["both", "low", "high"]


class EmpiricalBernstein:
    """Reads one stream, or several side by side, block by block.

    Args:
        alpha: error level of the whole sequence.
        cap: largest lambda, inside (0, 1).
        sides: "both" bounds; or only the "low" or "high" one, narrower, the other staying trivial.
    """

    def __init__(self, *, alpha: float = 0.05, cap: float = 0.5, sides: Sides = "both") -> None:
        check_inside("alpha", alpha)
        check_inside("cap", cap)
        self._a = alpha / 2 if sides == "both" else alpha
        self._cap = cap
        self._sides = sides
        self._plug_in = PlugIn()
        self._sums: FloatArray = np.zeros((3, 1))
        self._low: FloatArray = np.zeros(1)
        self._high: FloatArray = np.ones(1)

    def update(self, values: npt.ArrayLike) -> ConfidenceSequence:
        """Reads the next values and returns the bounds after each.

        Args:
            values: [t] or, for several streams, [..., t]; in [0, 1].

        Returns:
            Running intersections over all blocks so far, of the shape of `values`.

        Raises:
            ConfigError: a value is missing or outside [0, 1].
        """
        data = unit_values(values)
        known = self._plug_in.advance(data)
        bets = np.minimum(known.bets(self._a), self._cap)
        penalties = (data - known.means) ** 2 * (-np.log1p(-bets) - bets)
        sums = self._sums + np.cumsum(np.stack([bets, bets * data, penalties], axis=-2), axis=-1)
        weight, weighted, penalty = np.moveaxis(sums, -2, 0)
        radius = (math.log(1 / self._a) + penalty) / weight
        low = weighted / weight - radius if self._sides != "high" else np.zeros_like(data)
        high = weighted / weight + radius if self._sides != "low" else np.ones_like(data)
        low = np.maximum(self._low, np.maximum.accumulate(low, axis=-1))
        high = np.minimum(self._high, np.minimum.accumulate(high, axis=-1))
        if data.shape[-1]:
            self._sums, self._low, self._high = sums[..., -1:], low[..., -1:], high[..., -1:]
        return ConfidenceSequence(low, high)


def confidence_sequence(
    values: npt.ArrayLike, *, alpha: float = 0.05, cap: float = 0.5, sides: Sides = "both"
) -> ConfidenceSequence:
    """The bounds of `EmpiricalBernstein` for one stream [t] that is there as a whole."""
    return EmpiricalBernstein(alpha=alpha, cap=cap, sides=sides).update(one_dimensional(values))
