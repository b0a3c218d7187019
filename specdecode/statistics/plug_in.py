"""Running mean and variance that bets may use: known before the value they are used on.

    mu_i = (1/2 + sum_{j<=i} X_j) / (i + 1)
    s2_i = (1/4 + sum_{j<=i} (X_j - mu_j)^2) / (i + 1),   s2_0 = 1/4

One pseudo-value of mean 1/2 and variance 1/4 keeps the first bets modest.

Source: I. Waudby-Smith and A. Ramdas, JRSS-B 86 (2024), arXiv 2010.09686, section 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from specdecode.statistics.sequential import FloatArray


class Predictions(NamedTuple):
    """What was known before each value.

    Attributes:
        steps: float [t], 1-based number of each value.
        means: float [..., t], mu_{i-1}.
        variances: float [..., t], s2_{i-1}.
    """

    steps: FloatArray
    means: FloatArray
    variances: FloatArray

    def bets(self, a: float) -> FloatArray:
        """lambda_i = sqrt(2 log(1/a) / (s2_{i-1} i log(1 + i))), before any cap; float [..., t]."""
        scale = 2 * math.log(1 / a)
        return np.sqrt(scale / (self.variances * self.steps * np.log1p(self.steps)))


class PlugIn:
    """The running moments of one stream, or of several side by side, in memory free of t."""

    def __init__(self) -> None:
        self._n = 0
        self._total: FloatArray = np.zeros(1)
        self._squares: FloatArray = np.zeros(1)
        self._mean: FloatArray = np.full(1, 0.5)
        self._variance: FloatArray = np.full(1, 0.25)

    def advance(self, values: FloatArray) -> Predictions:
        """Reads the next block of every stream.

        Args:
            values: float [..., t], in [0, 1]; the leading axes are the same in every call.
        """
        t = values.shape[-1]
        steps = np.arange(self._n + 1, self._n + t + 1, dtype=np.float64)
        totals = self._total + np.cumsum(values, axis=-1)
        means = (0.5 + totals) / (steps + 1)
        squares = self._squares + np.cumsum((values - means) ** 2, axis=-1)
        variances = (0.25 + squares) / (steps + 1)
        found = Predictions(steps, _shifted(self._mean, means), _shifted(self._variance, variances))
        if t:
            self._n += t
            self._total, self._squares = totals[..., -1:], squares[..., -1:]
            self._mean, self._variance = means[..., -1:], variances[..., -1:]
        return found


def _shifted(first: FloatArray, rest: FloatArray) -> FloatArray:
    """Each entry's predecessor: what was known one step earlier."""
    t = rest.shape[-1]
    first = np.broadcast_to(first, (*rest.shape[:-1], 1))
    return np.concatenate([first, rest], axis=-1)[..., :t]
