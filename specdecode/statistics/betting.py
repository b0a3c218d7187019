"""Tests and confidence sequences for the mean of [0, 1] variables, valid at every look.

A gambler who may bet only before seeing the next value cannot expect to win against a true
hypothesis: the wealth is an e-process, so P(wealth ever reaches 1/alpha) <= alpha.

    K_t^+(m) = prod (1 + lambda_i (X_i - m)),   lambda_i = min(lambda_i^pr, c / m)
    K_t^-(m) = prod (1 - lambda_i (X_i - m)),   lambda_i = min(lambda_i^pr, c / (1 - m))
    lambda_i^pr = sqrt(2 log(1/a) / (s2_{i-1} i log(1 + i)))

with s2 the running variance (regularised by one pseudo-value of 1/4). K^+ does not increase in m
and K^- does not decrease, so each confidence set is an interval and its ends are simple roots.

For decisions that look again with every request, such as on shadow or canary traffic. A run
measured offline is looked at once and is judged by `bootstrap`; nothing else here calls this yet.

Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
JRSS-B 86 (2024), arXiv 2010.09686, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
Side = Literal["greater", "less"]

# The share of the wealth that may be lost in one step. Below 1, so that the wealth never hits 0.
DEFAULT_CAP = 0.5
# For m at 0 or 1 the cap c/m is infinite; a finite bet keeps the product finite.
_LARGEST_BET = 1e6
_BISECTIONS = 60


def predictable_bets(values: FloatArray, a: float) -> FloatArray:
    """The uncapped plug-in bets lambda_1^pr..lambda_t^pr.

    Args:
        values: float [t], in [0, 1].
        a: error level the bets are tuned for (alpha one-sided, alpha/2 hedged).

    Returns:
        float [t]; entry i depends on values[:i] alone.
    """
    steps = np.arange(1, len(values) + 1, dtype=np.float64)
    means = (0.5 + np.cumsum(values)) / (steps + 1)
    variances = (0.25 + np.cumsum((values - means) ** 2)) / (steps + 1)
    before = np.concatenate([[0.25], variances[:-1]])[: len(values)]
    return np.sqrt(2 * math.log(1 / a) / (before * steps * np.log1p(steps)))


def log_wealth(
    values: npt.ArrayLike,
    m: float,
    *,
    side: Side = "greater",
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
) -> FloatArray:
    """Log wealth after each value of a bet against "the mean is m or on its other side".

    Args:
        values: [t], in [0, 1], in the order in which they were seen.
        m: the bound under test.
        side: "greater" bets that the mean exceeds m (tests H0: mean <= m); "less" the reverse.
        alpha: level the bets are tuned for; validity does not depend on it.
        cap: largest share of wealth at risk in a step, inside (0, 1).

    Returns:
        float [t]: log K_1..log K_t. Reject H0 at the first entry >= log(1/alpha).
    """
    data = _checked(values)
    _check_settings(alpha, cap)
    if not 0 <= m <= 1:
        raise ConfigError(f"the tested mean must lie in [0, 1], not {m}")
    return np.cumsum(np.log1p(_stakes(data, predictable_bets(data, alpha), m, side, cap)))


@dataclass(frozen=True)
class BettingTest:
    """Outcome of a one-sided sequential test.

    Attributes:
        log_e: log wealth after the last value (0 when there were none).
        rejected_at: number of values after which wealth first reached 1/alpha; None if never.
        n: number of values seen.
    """

    log_e: float
    rejected_at: int | None
    n: int


def betting_test(
    values: npt.ArrayLike,
    m0: float,
    *,
    side: Side = "greater",
    alpha: float = 0.05,
    cap: float = DEFAULT_CAP,
) -> BettingTest:
    """Tests H0: mean <= m0 (side "greater") or mean >= m0 ("less"); a rejection stays rejected.

    Arguments as in `log_wealth`.
    """
    path = log_wealth(values, m0, side=side, alpha=alpha, cap=cap)
    crossed = np.flatnonzero(path >= math.log(1 / alpha))
    return BettingTest(
        log_e=float(path[-1]) if len(path) else 0.0,
        rejected_at=int(crossed[0]) + 1 if len(crossed) else None,
        n=len(path),
    )


@dataclass(frozen=True)
class ConfidenceSequence:
    """Bounds for the mean after each value.

    Attributes:
        low: float [t], never decreasing.
        high: float [t], never increasing.
    """

    low: FloatArray
    high: FloatArray


def confidence_sequence(
    values: npt.ArrayLike, *, alpha: float = 0.05, cap: float = DEFAULT_CAP
) -> ConfidenceSequence:
    """Hedged betting confidence sequence: both sides at once, each with half the wealth.

    P(the mean lies in [low_t, high_t] at every t) >= 1 - alpha. Bounds are the running
    intersection. An empty intersection (data at odds with one common mean) shows as low > high.

    Args:
        values: [t], in [0, 1], in the order in which they were seen.
        alpha: error level of the whole sequence.
        cap: largest share of wealth at risk in a step, inside (0, 1).
    """
    data = _checked(values)
    _check_settings(alpha, cap)
    bets = predictable_bets(data, alpha / 2)
    high = 1 - _lower_bounds(1 - data, bets, alpha, cap)
    return ConfidenceSequence(low=_lower_bounds(data, bets, alpha, cap), high=high)


def _lower_bounds(data: FloatArray, bets: FloatArray, alpha: float, cap: float) -> FloatArray:
    """inf{m : K_t^+(m) / 2 < 1/alpha} for each t, as a running maximum."""
    needed = math.log(2 / alpha)

    def wealth(m: float, t: int) -> float:
        return float(np.log1p(_stakes(data[:t], bets[:t], m, "greater", cap)).sum())

    bounds = np.empty(len(data))
    low = 0.0
    for t in range(1, len(data) + 1):
        if wealth(low, t) >= needed:
            # K^+ is at most 1 at m = 1, so the root lies between. The end kept is the rejected one
            # (the outer one): rounding can only widen the interval.
            inside, outside = low, 1.0
            for _ in range(_BISECTIONS):
                middle = (inside + outside) / 2
                if wealth(middle, t) >= needed:
                    inside = middle
                else:
                    outside = middle
            low = inside
        bounds[t - 1] = low
    return bounds


def _stakes(data: FloatArray, bets: FloatArray, m: float, side: Side, cap: float) -> FloatArray:
    room = m if side == "greater" else 1 - m
    limit = cap / room if room > cap / _LARGEST_BET else _LARGEST_BET
    sign = 1.0 if side == "greater" else -1.0
    return sign * np.minimum(bets, limit) * (data - m)


def _checked(values: npt.ArrayLike) -> FloatArray:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1:
        raise ConfigError(f"values must be one-dimensional, not of shape {data.shape}")
    bad = ~((data >= 0) & (data <= 1))  # also catches NaN
    if bad.any():
        row = int(np.argmax(bad))
        raise ConfigError(f"value {row} is {data[row]}, outside the declared bounds [0, 1]")
    return data


def _check_settings(alpha: float, cap: float) -> None:
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha must lie inside (0, 1), not {alpha}")
    if not 0 < cap < 1:
        raise ConfigError(f"cap must lie inside (0, 1), not {cap}")
