"""Our bounds beside those of `ville`, written by someone else (test-only; skipped where absent)."""

import numpy as np
import pytest

from specdecode.statistics import beta_binomial, betting, empirical_bernstein

ville = pytest.importorskip("ville")

STREAMS = {
    "beta": np.random.default_rng(0).beta(6, 2, size=400),
    "rare": np.random.default_rng(1).binomial(1, 0.03, size=400).astype(float),
    "often": np.random.default_rng(2).binomial(1, 0.95, size=400).astype(float),
    "constant": np.full(400, 0.25),
}
BINARY = ["rare", "often"]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_betting_bounds_agree_up_to_the_grid_of_the_other(name, alpha):
    """The other widens its set to the next grid points: two steps at most, and never inwards."""
    step = 1 / 9999
    other = ville.BettingCS(alpha=alpha, c=0.5, grid=10_000).fit(STREAMS[name])
    ours = betting.confidence_sequence(STREAMS[name], alpha=alpha, cap=0.5)

    assert (other.lower_ <= ours.low + 1e-9).all()
    assert (ours.low <= other.lower_ + 2 * step).all()
    assert (other.upper_ >= ours.high - 1e-9).all()
    assert (ours.high >= other.upper_ - 2 * step).all()


@pytest.mark.parametrize("name", STREAMS)
def test_empirical_bernstein_bounds_agree(name):
    other = ville.EmpiricalBernsteinCS(alpha=0.05, c=0.5).fit(STREAMS[name])
    ours = empirical_bernstein.confidence_sequence(STREAMS[name], alpha=0.05)

    assert np.allclose(other.lower_, ours.low, atol=1e-12)
    assert np.allclose(other.upper_, ours.high, atol=1e-12)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("prior", [(1.0, 1.0), (19.0, 1.0)])
def test_beta_binomial_bounds_and_evidence_agree(name, prior):
    data = STREAMS[name]
    other = ville.BernoulliCS(alpha=0.05, prior=prior).fit(data)
    ours = beta_binomial.confidence_sequence(data, alpha=0.05, prior=prior)

    assert np.allclose(other.lower_, ours.low, atol=1e-9)
    assert np.allclose(other.upper_, ours.high, atol=1e-9)
    evidence = beta_binomial.log_e(np.cumsum(data), np.arange(1, 401), 0.9, prior=prior)
    assert np.allclose(ville.BernoulliTest(0.9, prior=prior).fit(data).log_e_values_, evidence)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("side", ["greater", "less"])
def test_one_sided_betting_evidence_agrees(name, side):
    """The other tunes its bets for alpha/2 also when one-sided."""
    other = ville.BettingTest(0.6, alternative=side, alpha=0.1).fit(STREAMS[name])

    ours = betting.log_wealth(STREAMS[name], 0.6, side=side, alpha=0.05)
    assert np.allclose(other.log_e_values_, ours, atol=1e-9)
