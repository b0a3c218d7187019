"""Confidence sequence of a quantile: exact, for any distribution, ties included.

Let Q be the p-quantile, the least q with P(X <= q) >= p. Draw X as the U-quantile of a uniform U:
then #{X_i < Q} <= #{U_i <= p} <= #{X_i <= Q}, and the middle count is binomial with rate p. So q
is rejected when so few values are at most q, or so many below it, that the beta-binomial test of p
(`beta_binomial`) would reject such a count. What is left runs from one order statistic to another:

    [X_(least), X_(most + 1)],   least..most the counts that do not reject p.

Infinite ends say that the data do not reach far enough yet: at alpha 0.05 with a uniform mixture
the upper end of a p95 is finite from 158 values on, that of a p99 from 984. A decision belongs on
the indicator instead (`beta_binomial.slo_test`).

Source: S. Howard and A. Ramdas, "Sequential estimation of quantiles", Bernoulli 28 (2022), arXiv
1906.09712.
"""

from __future__ import annotations

import bisect
import math

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError
from specdecode.statistics.beta_binomial import UNIFORM, Prior, log_e
from specdecode.statistics.sequential import (
    ConfidenceSequence,
    IntArray,
    check_inside,
    one_dimensional,
)


def accepted_counts(
    trials: npt.ArrayLike, p: float, *, alpha: float = 0.05, prior: Prior = UNIFORM
) -> tuple[IntArray, IntArray]:
    """The least and the most successes that do not reject the rate p, for each number of trials.

    The evidence is convex in the count, so the counts in between do not reject p either.

    Args:
        trials: [t], at least 0.
        p: the rate, inside (0, 1).
        alpha: error level.
        prior: (a, b) of the beta mixture.

    Returns:
        Two int64 [t].
    """
    check_inside("quantile", p)
    check_inside("alpha", alpha)
    seen = np.asarray(trials, dtype=np.int64)
    a, b = prior
    # log E(s + 1) >= log E(s) from here on. The mean of E is 1, so its least value is accepted.
    centre = np.clip(np.ceil(p * (a + b + seen - 1) - a), 0, seen).astype(np.int64)

    def furthest(outside: IntArray) -> IntArray:
        inside = centre
        while (half := np.fix((outside - inside) / 2).astype(np.int64)).any():
            middle = inside + half
            kept = log_e(middle, seen, p, prior=prior) < math.log(1 / alpha)
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        return np.asarray(inside)

    return furthest(np.full_like(seen, -1)), furthest(seen + 1)


def confidence_sequence(
    values: npt.ArrayLike, quantile: float, *, alpha: float = 0.05, prior: Prior = UNIFORM
) -> ConfidenceSequence:
    """Bounds of a quantile after each value; running intersections.

    To compare two arms, run one sequence for each at alpha/2 and compare their ends.

    Args:
        values: [t], in any unit; infinite ones are allowed (a request that never ended).
        quantile: 0.5 for the median, 0.95 for p95.
        alpha: error level of the whole sequence.
        prior: (a, b) of the beta mixture.

    Returns:
        Bounds in the unit of the values; infinite where no value is far enough out.

    Raises:
        ConfigError: a value is missing (NaN), or quantile or alpha is out of range.
    """
    data = one_dimensional(values)
    if np.isnan(data).any():
        row = int(np.argmax(np.isnan(data)))
        raise ConfigError(f"value {row} is missing: leave such values out and count them")
    least, most = accepted_counts(np.arange(1, len(data) + 1), quantile, alpha=alpha, prior=prior)
    low, high = np.full(len(data), -np.inf), np.full(len(data), np.inf)
    ordered: list[float] = []
    for t, value in enumerate(data.tolist()):
        bisect.insort(ordered, value)
        if least[t] > 0:
            low[t] = ordered[least[t] - 1]
        if most[t] <= t:
            high[t] = ordered[most[t]]
    return ConfidenceSequence(np.maximum.accumulate(low), np.minimum.accumulate(high))
