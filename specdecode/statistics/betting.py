"""Tests and confidence sequences for the mean of [0, 1] variables, valid at every look.

A gambler who may bet only before seeing the next value cannot expect to win against a true
hypothesis: the wealth is an e-process, so P(wealth ever reaches 1/alpha) <= alpha.

    K_t^+(m) = prod (1 + lambda_i (X_i - m)),   lambda_i = min(lambda_i^pr, c / m)
    K_t^-(m) = prod (1 - lambda_i (X_i - m)),   lambda_i = min(lambda_i^pr, c / (1 - m))
    lambda_i^pr = sqrt(2 log(1/a) / (s2_{i-1} i log(1 + i)))

with s2 the running variance (see `plug_in`). K^+ does not increase in m and K^- does not decrease,
so each confidence set is an interval and its ends are simple roots.

A finite set of N prompts that is read in random order without replacement has a mean that is known
better and better, and exactly at the end. Before value i, a mean of m leaves for the rest

    m_i = (N m - S_{i-1}) / (N - i + 1),   S the running sum,

which takes the place of m above. A mean that would need m_i outside [0, 1] is impossible and is
rejected outright.

For decisions that look again with every request, such as on shadow or canary traffic. For one look
at a number of values that was fixed before, `betting_interval` bets more boldly.

Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
JRSS-B 86 (2024), arXiv 2010.09686, sections 3 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError
from specdecode.statistics.plug_in import PlugIn
from specdecode.statistics.root import TOLERANCE, last_reached
from specdecode.statistics.sequential import (
    ConfidenceSequence,
    FloatArray,
    SequentialTest,
    Side,
    check_inside,
    check_side,
    check_within,
    one_dimensional,
    sequential_test,
    unit_values,
)

# The share of the wealth that may be lost in one step. Below 1, so that the wealth never hits 0.
DEFAULT_CAP = 0.5
# For m at 0 or 1 the cap c/m is infinite; a finite bet keeps the product finite.
_LARGEST_BET = 1e6
# Sums are rounded: a mean is called impossible only if it is so by more than this.
_ROUNDING = 1e-9
# Factors multiplied before a logarithm is taken; (1 + _LARGEST_BET)^16 is far from overflow.
_CHUNK = 16


def predictable_bets(values: FloatArray, a: float) -> FloatArray:
    """The uncapped plug-in bets lambda_1^pr..lambda_t^pr.

    Args:
        values: float [..., t], in [0, 1].
        a: error level the bets are tuned for (alpha one-sided, alpha/2 hedged).

    Returns:
        float [..., t]; entry i depends on values[..., :i] alone.
    """
    return PlugIn().advance(values).bets(a)


def log_increments(
    values: npt.ArrayLike,
    m: float,
    *,
    side: Side = "greater",
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
    population: int | None = None,
) -> FloatArray:
    """Log of each factor of the wealth, for one stream or many side by side.

    Args:
        values: [..., t], in [0, 1], in the order in which they were seen.
        m: the bound under test.
        side: "greater" bets that the mean exceeds m (tests H0: mean <= m); "less" the reverse.
        alpha: level the bets are tuned for; validity does not depend on it.
        cap: largest share of wealth at risk in a step, inside (0, 1).
        population: size N of the finite set that is read without replacement, or None when each
            value is a fresh draw.

    Returns:
        float [..., t]. With `population`, infinite from where the values seen already rule out H0.

    Raises:
        ConfigError: a value, m, alpha or cap is out of range, there is no such side, or there are
            more values than N.
    """
    data = unit_values(values)
    check_inside("alpha", alpha)
    check_inside("cap", cap)
    check_within("the tested mean", m)
    check_side(side)
    if side == "less":  # betting on a small mean of X is betting on a large mean of 1 - X
        data, m = 1 - data, 1 - m
    slopes, offsets = _remaining_mean(data, population)
    means = slopes * m + offsets
    growth = np.log1p(_stakes(data, predictable_bets(data, alpha), means, cap))
    return np.where(means < -_ROUNDING * slopes, np.inf, growth)


def log_wealth(
    values: npt.ArrayLike,
    m: float,
    *,
    side: Side = "greater",
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
    population: int | None = None,
) -> FloatArray:
    """Log wealth after each value of a bet against "the mean is m or on its other side".

    Arguments and errors as in `log_increments`, for a single stream [t].

    Returns:
        float [t]: log K_1..log K_t. Reject H0 at the first entry >= log(1/alpha).
    """
    return np.cumsum(
        log_increments(
            one_dimensional(values), m, side=side, alpha=alpha, cap=cap, population=population
        )
    )


def log_wealth_by_mean(
    values: npt.ArrayLike, *, alpha: float = 0.05, cap: float = DEFAULT_CAP
) -> Callable[[float], FloatArray]:
    """`log_wealth` of side "greater" as a function of m: the uncapped bets are computed once.

    Args:
        values: [t], in [0, 1], in the order in which they were seen.
        alpha: level the bets are tuned for.
        cap: largest share of wealth at risk in a step, inside (0, 1).

    Returns:
        A function from m in [0, 1] to float [t].
    """
    data = unit_values(one_dimensional(values))
    check_inside("alpha", alpha)
    check_inside("cap", cap)
    bets = predictable_bets(data, alpha)
    return lambda m: np.cumsum(np.log1p(_stakes(data, bets, np.asarray(m, np.float64), cap)))


def betting_test(
    values: npt.ArrayLike,
    m0: float,
    *,
    side: Side = "greater",
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
    population: int | None = None,
) -> SequentialTest:
    """Tests H0: mean <= m0 (side "greater") or mean >= m0 ("less"); a rejection stays rejected.

    Arguments as in `log_wealth`.
    """
    path = log_wealth(values, m0, side=side, alpha=alpha, cap=cap, population=population)
    return sequential_test(path, alpha)


def confidence_sequence(
    values: npt.ArrayLike,
    *,
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
    population: int | None = None,
) -> ConfidenceSequence:
    """Hedged betting confidence sequence: both sides at once, each with half the wealth.

    P(the mean lies in [low_t, high_t] at every t) >= 1 - alpha. Bounds are the running
    intersection. An empty intersection (data at odds with one common mean) shows as low > high.

    Args:
        values: [t], in [0, 1], in the order in which they were seen.
        alpha: error level of the whole sequence.
        cap: largest share of wealth at risk in a step, inside (0, 1).
        population: size N of the finite set that is read without replacement; the bounds then stay
            inside [S_t/N, (S_t + N - t)/N] and meet in the mean at t = N.
    """
    data = unit_values(one_dimensional(values))
    check_inside("alpha", alpha)
    check_inside("cap", cap)
    bets = predictable_bets(data, alpha / 2)
    low = _lower_bounds(data, bets, alpha, cap, population)
    high = 1 - _lower_bounds(1 - data, bets, alpha, cap, population)
    if population is not None:
        totals, unseen = np.cumsum(data), population - np.arange(1, len(data) + 1)
        low = np.maximum(low, totals / population)
        high = np.minimum(high, (totals + unseen) / population)
    return ConfidenceSequence(low, high)


def _lower_bounds(
    data: FloatArray, bets: FloatArray, alpha: float, cap: float, population: int | None
) -> FloatArray:
    """inf{m : K_t^+(m) / 2 < 1/alpha} for each t, as a running maximum.

    The wealth at the present bound is carried along, so that a value which does not move the bound
    costs O(1); one which does costs a few passes over the data so far.
    """
    needed = math.log(2 / alpha)
    slopes, offsets = _remaining_mean(data, population)
    starts = np.arange(0, len(data), _CHUNK)

    def excess(t: int, m: float) -> float:
        means = slopes[:t] * m + offsets[:t]
        factors = 1 + _stakes(data[:t], bets[:t], means, cap)
        chunks = np.multiply.reduceat(factors, starts[: -(-t // _CHUNK)])
        return float(np.log(chunks).sum()) - needed

    bounds = np.empty(len(data))
    low, surplus, step = 0.0, -needed, 0.01
    for t in range(1, len(data) + 1):
        now = slice(t - 1, t)
        mean = slopes[now] * low + offsets[now]
        surplus += math.log1p(float(_stakes(data[now], bets[now], mean, cap)[0]))
        if surplus >= 0:
            before = low
            low, surplus = last_reached(partial(excess, t), low, surplus, step)
            step = max(2 * (low - before), TOLERANCE)
        bounds[t - 1] = low
    return bounds


def _remaining_mean(data: FloatArray, population: int | None) -> tuple[FloatArray, FloatArray]:
    """Slopes and offsets, float [..., t], of m_i = slope_i m + offset_i, the mean of the rest."""
    t = data.shape[-1]
    if population is None:
        return np.ones(t), np.zeros(t)
    if t > population:
        raise ConfigError(f"{t} values cannot come from {population} prompts without replacement")
    left = population - np.arange(t, dtype=np.float64)
    seen = np.concatenate([np.zeros((*data.shape[:-1], 1)), np.cumsum(data, axis=-1)], axis=-1)
    return population / left, -seen[..., :t] / left


def _stakes(data: FloatArray, bets: FloatArray, means: FloatArray, cap: float) -> FloatArray:
    """lambda_i (X_i - m_i). Where m_i > 1 the bet can only lose, where m_i < 0 it takes m_i = 0."""
    means = np.maximum(means, 0)
    limits = cap / np.maximum(means, cap / _LARGEST_BET)
    return np.asarray(np.minimum(bets, limits) * (data - means))
