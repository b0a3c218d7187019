"""Sequential test of sample-ratio mismatch: do the arms get their declared shares of the traffic?

A mismatch means that assignment, routing or telemetry treats the arms differently, and then no
comparison of them can be trusted. With counts n_j of k arms and declared shares theta_j,

    E_n = B(a0 + n) / B(a0) / prod theta_j^(n_j),   B(a) = prod Gamma(a_j) / Gamma(sum a_j)

averages the likelihood ratio over Dirichlet(a0) mixed shares, a0 = concentration * k * theta. It is
an e-process for "the shares are theta". Run it also on the requests that ended with metrics: lost
telemetry in one arm is the usual mismatch in serving. Mirror coverage (sent, not sent) is the same
test for a shadow.

Source: M. Lindon and A. Malek, "Anytime-valid inference for multinomial count data", NeurIPS 2022,
arXiv 2011.03567.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from specdecode.errors import ConfigError
from specdecode.statistics.sequential import (
    FloatArray,
    SequentialTest,
    check_inside,
    one_dimensional,
    sequential_test,
)

# Prior counts per arm: expects shares near the declared ones, as a mismatch is usually small.
CONCENTRATION = 100.0


def log_e(
    counts: npt.ArrayLike, weights: Sequence[float], *, concentration: float = CONCENTRATION
) -> FloatArray:
    """Log evidence against the declared shares.

    Args:
        counts: [..., k], assignments to each arm so far.
        weights: k positive numbers in the ratio of the declared shares.
        concentration: prior counts per arm, positive. It moves power, never validity.

    Returns:
        float [...].

    Raises:
        ConfigError: fewer than two arms, counts or weights that are impossible or do not match.
    """
    declared = np.asarray(weights, dtype=np.float64)
    if (
        declared.ndim != 1
        or len(declared) < 2
        or not (np.isfinite(declared) & (declared > 0)).all()
    ):
        raise ConfigError(f"weights must be two or more positive numbers, not {list(weights)}")
    if not concentration > 0:
        raise ConfigError(f"concentration must be positive, not {concentration}")
    seen = np.asarray(counts, dtype=np.float64)
    if seen.ndim == 0 or seen.shape[-1] != len(declared):
        raise ConfigError(f"counts of shape {seen.shape} do not match {len(declared)} weights")
    if not (seen >= 0).all():
        raise ConfigError("a count is negative or missing")
    shares = declared / declared.sum()
    prior = concentration * len(shares) * shares
    mixture = _log_beta(prior + seen) - _log_beta(prior)
    return np.asarray(mixture - (seen * np.log(shares)).sum(axis=-1))


def sample_ratio_test(
    arms: npt.ArrayLike,
    weights: Sequence[float],
    *,
    alpha: float = 0.001,
    concentration: float = CONCENTRATION,
) -> SequentialTest:
    """Tests the declared shares after each assignment; a rejection stays.

    Args:
        arms: [n], the arm of each unit as a number 0..k-1, in the order of assignment. Units are
            what is randomised: users or conversations if assignment sticks to those.
        weights: k positive numbers in the ratio of the declared shares.
        alpha: level. Small by custom, because a mismatch makes a result invalid.
        concentration: see `log_e`.

    Raises:
        ConfigError: an arm has no weight, or the weights are impossible.
    """
    check_inside("alpha", alpha)
    numbers = one_dimensional(arms)
    one_hot = numbers[..., None] == np.arange(len(weights))
    unknown = ~one_hot.any(axis=-1)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ConfigError(
            f"unit {row} has arm {numbers[row]:g}, which is none of 0..{len(weights) - 1}"
        )
    counts = np.cumsum(one_hot, axis=0)
    return sequential_test(log_e(counts, weights, concentration=concentration), alpha)


def _log_beta(parameters: FloatArray) -> FloatArray:
    """Log of the multivariate beta function over the last axis."""
    gammas = special.gammaln(parameters).sum(axis=-1)
    return np.asarray(gammas - special.gammaln(parameters.sum(axis=-1)))
