import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.beta_binomial import log_e
from specdecode.statistics.quantiles import accepted_counts, confidence_sequence

tied_lists = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=60)
quantiles = st.sampled_from([0.1, 0.5, 0.75, 0.95])


@given(st.integers(0, 80), quantiles, st.sampled_from([(1.0, 1.0), (0.5, 0.5), (19.0, 1.0)]))
def test_accepted_counts_are_all_that_do_not_reject(t, p, prior):
    least, most = accepted_counts([t], p, prior=prior)
    kept = np.flatnonzero(log_e(np.arange(t + 1), t, p, prior=prior) < math.log(20))

    assert kept.tolist() == list(range(least[0], most[0] + 1))


@settings(deadline=None, max_examples=150)
@given(tied_lists, quantiles)
def test_inversion_equals_brute_force_with_ties(values, p):
    """Every candidate, also between and beyond the values, is tested at every look."""
    sequence = confidence_sequence(values, p, alpha=0.3)
    candidates = np.arange(-0.5, 7.0, 0.5)
    kept = np.ones(len(candidates), dtype=bool)
    for t in range(1, len(values) + 1):
        seen = np.array(values[:t])
        for place, q in enumerate(candidates):
            at_most, below = int((seen <= q).sum()), int((seen < q).sum())
            too_few = at_most < p * t and log_e(at_most, t, p) >= math.log(1 / 0.3)
            too_many = below > p * t and log_e(below, t, p) >= math.log(1 / 0.3)
            kept[place] &= not (too_few or too_many)
        inside = (candidates >= sequence.low[t - 1]) & (candidates <= sequence.high[t - 1])
        assert np.array_equal(inside, kept)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), quantiles)
def test_ends_are_values_of_the_data_or_open_and_nested(values, p):
    sequence = confidence_sequence(values, p)

    assert (np.diff(sequence.low[np.isfinite(sequence.low)]) >= 0).all()
    assert (np.diff(sequence.high[np.isfinite(sequence.high)]) <= 0).all()
    ends = {*sequence.low.tolist(), *sequence.high.tolist()}
    assert ends <= {*values, math.inf, -math.inf}


@given(tied_lists, quantiles)
def test_a_change_of_unit_changes_the_bounds_alike(values, p):
    seconds = confidence_sequence(values, p)
    milliseconds = confidence_sequence([1000 * value for value in values], p)

    assert np.array_equal(milliseconds.low, 1000 * seconds.low)
    assert np.array_equal(milliseconds.high, 1000 * seconds.high)


@given(tied_lists)
def test_mirroring_the_data_mirrors_the_bounds_of_the_median(values):
    straight = confidence_sequence(values, 0.5)
    mirrored = confidence_sequence([-value for value in values], 0.5)

    assert np.array_equal(mirrored.low, -straight.high)
    assert np.array_equal(mirrored.high, -straight.low)


@pytest.mark.parametrize("law", ["exponential", "tied"])
def test_the_quantile_is_missed_at_any_look_in_at_most_alpha_of_runs(law):
    rng = np.random.default_rng(0)
    runs, alpha = 300, 0.1
    misses = 0
    for _ in range(runs):
        if law == "exponential":
            values, truth = rng.exponential(size=400), math.log(10)
        else:  # P(X <= 2) = 0.95 jumps over 0.9, so that the 0.9-quantile is 2
            values, truth = rng.choice([1.0, 2.0, 3.0], p=[0.6, 0.35, 0.05], size=400), 2.0
        sequence = confidence_sequence(values, 0.9, alpha=alpha)
        misses += bool(((sequence.low > truth) | (sequence.high < truth)).any())

    assert misses <= stats.binom.ppf(0.999, runs, alpha)


@pytest.mark.parametrize(("p", "first"), [(0.5, 8), (0.95, 158), (0.99, 984)])
def test_the_upper_end_is_open_until_the_data_reach_far_enough(p, first):
    values = np.random.default_rng(1).permutation(1000).astype(float)
    high = confidence_sequence(values, p).high

    assert math.isinf(high[first - 2])
    assert math.isfinite(high[first - 1])


def test_requests_that_never_end_are_values_and_missing_ones_are_refused():
    values = [1.0] * 20 + [math.inf] * 20

    assert confidence_sequence(values, 0.25).high[-1] == 1.0
    assert math.isinf(confidence_sequence(values, 0.75).high[-1])
    with pytest.raises(ConfigError, match="value 1 is missing"):
        confidence_sequence([1.0, math.nan], 0.5)


@pytest.mark.parametrize("arguments", [{"quantile": 1.0}, {"quantile": 0.5, "alpha": 0.0}])
def test_impossible_settings_are_refused(arguments):
    with pytest.raises(ConfigError, match="must lie inside"):
        confidence_sequence([1.0], **arguments)
