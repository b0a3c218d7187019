"""Lower bounds of a mean that hold at every look, by each method a plan may name.

A bound at level alpha lies above the mean at some look with chance at most alpha. Bounds never
fall, so what is wanted of a sequence is its last bound, and the look at which it first reached a
threshold. Neither needs the bounds in between: the evidence against "the mean is at most m" falls
as m rises, so the last bound is the largest m that was rejected at any look.

Upper bounds are lower bounds of 1 - X.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from specdecode.statistics.beta_binomial import log_e, log_e_one_sided
from specdecode.statistics.betting import log_wealth_by_mean
from specdecode.statistics.empirical_bernstein import EmpiricalBernstein
from specdecode.statistics.sequential import FloatArray

Method = Literal["betting", "empirical-bernstein", "beta-binomial"]

CAP = 0.75
"""Largest share of the wealth a bet risks; indicators and well-paired differences vary little, and
are judged sooner at 3/4 than at 1/2 (docs/statistics.md)."""

_HALVINGS = 36


def crossing(method: Method, values: FloatArray, m: float, alpha: float) -> int | None:
    """Values after which "the mean is at most m" was first rejected, or None.

    Args:
        method: how.
        values: in [0, 1], in order, float [t]; 0 or 1 for beta-binomial.
        m: in [0, 1].
        alpha: chance of a false rejection at any look.
    """
    if not len(values) or m >= 1:
        return None
    if method == "empirical-bernstein":  # a bound of 0 is no evidence, not even of "at most 0"
        bounds = _bernstein(values, alpha)
        reached = np.flatnonzero((bounds >= m) & (bounds > 0))
    else:
        reached = np.flatnonzero(_evidence(method, values, alpha)(m) >= math.log(1 / alpha))
    return int(reached[0]) + 1 if len(reached) else None


def lower_bound(method: Method, values: FloatArray, alpha: float) -> float:
    """The last lower bound of the mean, in [0, 1]; arguments as in `crossing`."""
    if not len(values):
        return 0.0
    if method == "empirical-bernstein":
        return float(np.clip(_bernstein(values, alpha)[-1], 0, 1))
    ever_rejected = (
        _of_rates(values, alpha) if method == "beta-binomial" else _of_bets(values, alpha)
    )
    rejected, kept = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (rejected + kept) / 2
        if ever_rejected(middle):
            rejected = middle
        else:
            kept = middle
    return rejected  # rounded outwards


def _of_bets(values: FloatArray, alpha: float) -> Callable[[float], bool]:
    """Whether "the mean is at most m" was rejected at some look, as a function of m."""
    evidence = _evidence("betting", values, alpha)
    return lambda m: float(evidence(m).max()) >= math.log(1 / alpha)


def _of_rates(values: FloatArray, alpha: float) -> Callable[[float], bool]:
    """The same of the beta-binomial mixture.

    Its factor P(Beta > m) is costly, and at most 1: a look that rejects nothing without it rejects
    nothing.
    """
    needed = math.log(1 / alpha)
    won, seen = np.cumsum(values), np.arange(1, len(values) + 1, dtype=np.float64)
    mixture = log_e(won, seen, 0.5) + seen * math.log(0.5)  # of the counts alone, for any m

    def ever_rejected(m: float) -> bool:
        most = mixture - won * math.log(m) - (seen - won) * math.log1p(-m) - math.log1p(-m)
        looks = np.flatnonzero(most >= needed)
        if not len(looks):
            return False
        likeliest = looks[np.argmax(most[looks])]
        if float(log_e_one_sided(won[likeliest], seen[likeliest], m)) >= needed:
            return True
        return bool((log_e_one_sided(won[looks], seen[looks], m) >= needed).any())

    return ever_rejected


def _bernstein(values: FloatArray, alpha: float) -> FloatArray:
    return EmpiricalBernstein(alpha=alpha, cap=CAP, sides="low").update(values).low


def _evidence(method: Method, values: FloatArray, alpha: float) -> Callable[[float], FloatArray]:
    """Log evidence against "the mean is at most m" after each value, as a function of m."""
    if method == "betting":
        return log_wealth_by_mean(values, alpha=alpha, cap=CAP)
    won, seen = np.cumsum(values), np.arange(1, len(values) + 1, dtype=np.float64)
    return lambda m: log_e_one_sided(won, seen, m)
