"""Sequential tests of a rate: the average of the likelihood ratio over a beta mixture of rates.

With S successes among t trials and F = t - S,

    E_t(p) = B(a + S, b + F) / B(a, b) / (p^S (1 - p)^F)

is an e-process for "the rate is p", and {p : E_t(p) < 1/alpha} is a confidence sequence. It says
nothing about "the rate is at most p0" until every p <= p0 is rejected. Mixing over rates above p0
only gives an e-process for all of p <= p0 at once, because each ratio
(q/p0)^X ((1-q)/(1-p0))^(1-X) with q > p0 grows, on average, only if the rate exceeds p0:

    E_t^+(p0) = E_t(p0) * P(Beta(a + S, b + F) > p0) / P(Beta(a, b) > p0).

"95 % of requests answer within the limit" is such a rate. Testing it needs no assumption about the
latencies' distribution, and no bound on them.

Source: H. Robbins, "Statistical methods related to the law of the iterated logarithm", Ann. Math.
Stat. 41 (1970); S. Howard et al., Ann. Stat. 49 (2021), arXiv 1810.08240 (beta-binomial mixtures).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from specdecode.errors import ConfigError
from specdecode.statistics.sequential import (
    ConfidenceSequence,
    FloatArray,
    SequentialTest,
    Side,
    check_inside,
    check_side,
    indicator_values,
    one_dimensional,
    sequential_test,
)

Prior = tuple[float, float]
UNIFORM: Prior = (1.0, 1.0)
_BISECTIONS = 60


def log_e(
    successes: npt.ArrayLike, trials: npt.ArrayLike, p: npt.ArrayLike, *, prior: Prior = UNIFORM
) -> FloatArray:
    """Log evidence against "the rate is p", on either side of it.

    Args:
        successes: counts S; broadcasts with the others.
        trials: counts t >= S.
        p: the rate under test, in [0, 1].
        prior: (a, b) of the mixture, positive. It moves power, never validity.

    Returns:
        float: log E_t(p); infinite where p = 0 or 1 and the counts rule it out.
    """
    _check_prior(prior)
    won = np.asarray(successes, dtype=np.float64)
    lost = np.asarray(trials, dtype=np.float64) - won
    rate = np.asarray(p, dtype=np.float64)
    mixture = special.betaln(prior[0] + won, prior[1] + lost) - special.betaln(*prior)
    return np.asarray(mixture - special.xlogy(won, rate) - special.xlog1py(lost, -rate))


def log_e_one_sided(
    successes: npt.ArrayLike,
    trials: npt.ArrayLike,
    p0: float,
    *,
    side: Side = "greater",
    prior: Prior = UNIFORM,
) -> FloatArray:
    """Log evidence against "the rate is at most p0" ("greater") or "at least p0" ("less").

    Args:
        successes: counts S; broadcasts with `trials`.
        trials: counts t >= S.
        p0: the bound under test, inside (0, 1).
        side: "greater" looks for a rate above p0, "less" for one below.
        prior: (a, b) of the mixture, before it is cut off at p0.

    Returns:
        float: log E_t^+(p0); minus infinity where the evidence is too small for a double.
    """
    check_inside("p0", p0)
    check_side(side)
    _check_prior(prior)
    won, seen = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if side == "less":
        won, p0, prior = seen - won, 1 - p0, (prior[1], prior[0])
    tail = special.betaincc(prior[0] + won, prior[1] + seen - won, p0)
    with np.errstate(divide="ignore"):
        share = np.log(tail) - np.log(special.betaincc(*prior, p0))
    return np.asarray(log_e(won, seen, p0, prior=prior) + share)


def rate_test(
    indicators: npt.ArrayLike,
    p0: float,
    *,
    side: Side = "greater",
    alpha: float = 0.05,
    prior: Prior = UNIFORM,
) -> SequentialTest:
    """Tests H0: rate <= p0 (side "greater") or rate >= p0 ("less") after each indicator.

    Args:
        indicators: [t], 0 or 1, independent, in the order in which they were seen.
        p0: the bound under test, inside (0, 1).
        side: where a rejection puts the rate.
        alpha: level; H0 is rejected once the evidence reaches 1/alpha.
        prior: see `log_e_one_sided`.
    """
    check_inside("alpha", alpha)
    won, seen = _running(indicators)
    return sequential_test(log_e_one_sided(won, seen, p0, side=side, prior=prior), alpha)


def confidence_sequence(
    indicators: npt.ArrayLike, *, alpha: float = 0.05, prior: Prior = UNIFORM
) -> ConfidenceSequence:
    """Bounds of a rate after each indicator; running intersections.

    Args:
        indicators: [t], 0 or 1, in the order in which they were seen.
        alpha: error level of the whole sequence.
        prior: see `log_e`.
    """
    check_inside("alpha", alpha)
    won, seen = _running(indicators)
    low = _lower_bounds(won, seen, alpha, prior)
    high = 1 - _lower_bounds(seen - won, seen, alpha, (prior[1], prior[0]))
    return ConfidenceSequence(np.maximum.accumulate(low), np.minimum.accumulate(high))


@dataclass(frozen=True)
class SloTest(SequentialTest):
    """Outcome of a test that enough requests meet a latency limit.

    Attributes:
        met: requests within the limit.
        missing: requests without a latency; they are not among the `n` and speak for neither side.
    """

    met: int
    missing: int


def slo_test(
    latencies: Sequence[float | None],
    limit: float,
    *,
    share: float = 0.95,
    alpha: float = 0.05,
    prior: Prior = UNIFORM,
) -> SloTest:
    """Tests H0: P(latency <= limit) <= share. A rejection shows that the quantile is in the limit.

    Args:
        latencies: one per request, in the unit of `limit`, in the order in which they were seen;
            None (or NaN) where there is none. A request that failed counts as one too slow only if
            the caller says so, by giving infinity.
        limit: the service-level objective.
        share: share of requests that must meet it, inside (0, 1).
        alpha: level; H0 is rejected once the evidence reaches 1/alpha.
        prior: see `log_e_one_sided`.
    """
    if math.isnan(limit):
        raise ConfigError("the latency limit is not a number")
    data = one_dimensional([np.nan if value is None else value for value in latencies])
    missing = np.isnan(data)
    met = data[~missing] <= limit
    found = rate_test(met, share, alpha=alpha, prior=prior)
    return SloTest(
        found.log_e, found.rejected_at, found.n, met=int(met.sum()), missing=int(missing.sum())
    )


def _lower_bounds(won: FloatArray, seen: FloatArray, alpha: float, prior: Prior) -> FloatArray:
    """Smallest rate not rejected, for each count: E falls from infinity at 0 to below 1 at S/t."""
    rejected, kept = np.zeros_like(seen), won / seen
    for _ in range(_BISECTIONS):
        middle = (rejected + kept) / 2
        out = log_e(won, seen, middle, prior=prior) >= math.log(1 / alpha)
        rejected, kept = np.where(out, middle, rejected), np.where(out, kept, middle)
    return rejected


def _running(indicators: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Successes and trials after each indicator, float [t]."""
    data = indicator_values(indicators)
    return np.cumsum(data), np.arange(1, len(data) + 1, dtype=np.float64)


def _check_prior(prior: Prior) -> None:
    if not all(0 < parameter < math.inf for parameter in prior):  # NaN is not either
        raise ConfigError(f"the beta mixture needs two positive parameters, not {prior}")
