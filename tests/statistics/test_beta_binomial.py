import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from specdecode.errors import ConfigError
from specdecode.statistics.beta_binomial import (
    confidence_sequence,
    log_e,
    log_e_one_sided,
    rate_test,
    slo_test,
)

priors = st.sampled_from([(1.0, 1.0), (0.5, 0.5), (19.0, 1.0), (2.0, 7.0)])


def integral(won, lost, p, prior, *, low=0.0, high=1.0):
    """The mixture by numeric integration of the likelihood ratio over rates in [low, high]."""
    mixing = stats.beta(*prior)

    def ratio(q):
        return mixing.pdf(q) * (q / p) ** won * ((1 - q) / (1 - p)) ** lost

    return integrate.quad(ratio, low, high, limit=200)[0] / (mixing.cdf(high) - mixing.cdf(low))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.05, 0.95), priors)
def test_the_mixture_equals_numeric_integration(won, lost, p, prior):
    assert math.exp(log_e(won, won + lost, p, prior=prior)) == pytest.approx(
        integral(won, lost, p, prior), rel=1e-5
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.05, 0.95), priors)
def test_the_one_sided_mixture_equals_numeric_integration(won, lost, p, prior):
    above = math.exp(log_e_one_sided(won, won + lost, p, prior=prior))
    below = math.exp(log_e_one_sided(won, won + lost, p, side="less", prior=prior))

    assert above == pytest.approx(integral(won, lost, p, prior, low=p), rel=1e-5)
    assert below == pytest.approx(integral(won, lost, p, prior, high=p), rel=1e-5)


@pytest.mark.parametrize("prior", [(1.0, 1.0), (19.0, 1.0)])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.9, 1.0])
def test_evidence_does_not_grow_on_average_under_the_null(rate, prior):
    """Exact over the law of the count, at every length up to 40."""
    for t in range(1, 41):
        counts = np.arange(t + 1)
        chances = stats.binom.pmf(counts, t, rate)
        possible = chances > 0
        mean = (chances[possible] * np.exp(log_e(counts[possible], t, rate, prior=prior))).sum()
        if 0 < rate < 1:
            assert mean == pytest.approx(1.0, abs=1e-9)
        else:  # the mixture also bets on counts that cannot occur
            assert mean < 1.0


@pytest.mark.parametrize("side", ["greater", "less"])
@pytest.mark.parametrize("distance", [0.0, 0.02, 0.3, 0.6])
def test_one_sided_evidence_is_fair_at_the_bound_and_shrinks_inside_it(side, distance):
    p0 = 0.7 if side == "greater" else 0.3
    rate = p0 - distance if side == "greater" else p0 + distance
    means = []
    for t in range(1, 31):
        counts = np.arange(t + 1)
        evidence = np.exp(log_e_one_sided(counts, t, p0, side=side))
        means.append((stats.binom.pmf(counts, t, rate) * evidence).sum())

    if distance:
        assert (np.diff([1.0, *means]) < 0).all()
    else:
        assert means == pytest.approx([1.0] * 30, abs=1e-9)


def test_evidence_is_a_supermartingale_after_any_past():
    """Whatever was seen, the next value adds nothing on average at the bound, and less inside."""
    for won, t in itertools.product(range(6), [6, 11]):
        now, hit, miss = (
            math.exp(log_e_one_sided(s, n, 0.8))
            for s, n in ((won, t), (won + 1, t + 1), (won, t + 1))
        )
        assert 0.8 * hit + 0.2 * miss == pytest.approx(now)
        assert 0.7 * hit + 0.3 * miss < now


def test_evidence_too_small_for_a_double_is_none_and_never_much():
    assert log_e_one_sided(0, 100_000, 0.95) == -math.inf
    assert log_e(0, 100_000, 0.95) > 1000
    assert log_e_one_sided(100_000, 100_000, 0.95) > 1000


@settings(deadline=None, max_examples=60)
@given(st.lists(st.booleans(), min_size=1, max_size=60), priors)
def test_the_bounds_are_the_ends_of_the_rates_not_rejected(indicators, prior):
    sequence = confidence_sequence(indicators, prior=prior)
    won, seen = np.cumsum(indicators), np.arange(1, len(indicators) + 1)
    grid = np.linspace(0.00123, 0.99877, 501)
    rejected = (log_e(won[:, None], seen[:, None], grid, prior=prior) >= math.log(20)).any(axis=0)

    assert np.array_equal(rejected, (grid < sequence.low[-1]) | (grid > sequence.high[-1]))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_mirroring_the_data_mirrors_bounds_and_sides(indicators):
    mirrored = [not hit for hit in indicators]
    straight, other = confidence_sequence(indicators), confidence_sequence(mirrored)

    assert np.allclose(other.low, 1 - straight.high, atol=1e-12)
    assert np.allclose(other.high, 1 - straight.low, atol=1e-12)
    assert rate_test(indicators, 0.3).log_e == pytest.approx(
        rate_test(mirrored, 0.7, side="less").log_e
    )


def test_the_sequence_is_nested_and_misses_the_rate_in_at_most_alpha_of_runs():
    rng = np.random.default_rng(0)
    runs, alpha, rate = 300, 0.1, 0.9
    misses = 0
    for _ in range(runs):
        sequence = confidence_sequence(rng.random(300) < rate, alpha=alpha)
        assert (np.diff(sequence.low) >= 0).all()
        assert (np.diff(sequence.high) <= 0).all()
        misses += bool(((sequence.low > rate) | (sequence.high < rate)).any())

    assert misses <= stats.binom.ppf(0.999, runs, alpha)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("rate", [0.5, 0.95])
def test_the_chance_of_any_false_rejection_is_at_most_alpha_exactly(rate, alpha):
    """The law of the count among runs not yet rejected, carried through 500 looks."""
    for evidence in (log_e, log_e_one_sided):
        surviving = np.array([1.0])
        for t in range(1, 501):
            surviving = np.convolve(surviving, [1 - rate, rate])
            rejected = evidence(np.arange(t + 1), t, rate) >= math.log(1 / alpha)
            surviving = np.where(rejected, 0.0, surviving)

        assert 0.1 * alpha < 1 - surviving.sum() <= alpha


class TestSlo:
    def test_enough_requests_in_the_limit_show_that_the_quantile_is(self):
        latencies = [0.2] * 99 + [3.0] + [0.2] * 100

        outcome = slo_test(latencies, 0.5)
        assert outcome.rejected_at is not None
        assert (outcome.n, outcome.met, outcome.missing) == (200, 199, 0)
        assert slo_test(latencies, 0.1).rejected_at is None

    def test_a_latency_equal_to_the_limit_meets_it(self):
        assert slo_test([0.5], 0.5).met == 1

    def test_missing_latencies_are_counted_and_speak_for_neither_side(self):
        with_gaps = slo_test([0.2, None, 0.9, math.nan, 0.1], 0.5)
        without = slo_test([0.2, 0.9, 0.1], 0.5)

        assert (with_gaps.missing, with_gaps.n, with_gaps.met) == (2, 3, 2)
        assert with_gaps.log_e == without.log_e

    def test_a_request_that_never_ended_can_be_counted_as_too_slow(self):
        assert slo_test([0.2, math.inf], 0.5).met == 1

    def test_no_latencies_show_nothing(self):
        outcome = slo_test([None, None], 0.5)

        assert (outcome.log_e, outcome.rejected_at, outcome.n, outcome.missing) == (0.0, None, 0, 2)

    def test_false_permission_at_exactly_the_share_stays_below_alpha(self):
        rng = np.random.default_rng(1)
        runs, alpha = 400, 0.05
        permitted = sum(
            slo_test(rng.exponential(size=600), math.log(20), alpha=alpha).rejected_at is not None
            for _ in range(runs)
        )

        assert permitted <= stats.binom.ppf(0.999, runs, alpha)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rate_test([0.5], 0.5), "indicator 0 is 0.5"),
        (lambda: rate_test([0, math.nan], 0.5), "indicator 1 is nan"),
        (lambda: rate_test([1], 1.0), "p0"),
        (lambda: rate_test([1], 0.5, alpha=0), "alpha"),
        (lambda: rate_test([1], 0.5, side="grater"), "side must be"),
        (lambda: rate_test([[1]], 0.5), "one-dimensional"),
        (lambda: confidence_sequence([1], prior=(0, 1)), "positive parameters"),
        (lambda: confidence_sequence([1], prior=(math.nan, 1)), "positive parameters"),
        (lambda: confidence_sequence([1], prior=(1, math.nan)), "positive parameters"),
        (lambda: confidence_sequence([1], prior=(math.inf, 1)), "positive parameters"),
        (lambda: slo_test([1.0], math.nan), "limit"),
        (lambda: slo_test([1.0], 2.0, share=1.0), "p0"),
    ],
)
def test_impossible_input_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
