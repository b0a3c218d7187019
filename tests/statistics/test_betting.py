import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.betting import (
    betting_test,
    confidence_sequence,
    log_wealth,
    predictable_bets,
)

unit_lists = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@pytest.mark.parametrize("side", ["greater", "less"])
@pytest.mark.parametrize("mean", [0.0, 0.1, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("cap", [0.5, 0.75])
def test_wealth_never_grows_on_average_under_the_null(side, mean, cap):
    """Exact enumeration of Bernoulli data, at every length up to 9."""
    for t in range(1, 10):
        expected = 0.0
        for bits in itertools.product((0.0, 1.0), repeat=t):
            weight = mean ** sum(bits) * (1 - mean) ** (t - sum(bits))
            if weight:
                expected += weight * math.exp(log_wealth(bits, mean, side=side, cap=cap)[-1])
        assert expected == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("side", "mean"), [("greater", 0.3), ("less", 0.7)])
def test_a_mean_strictly_inside_the_null_makes_wealth_shrink(side, mean):
    expected = sum(
        mean ** sum(bits)
        * (1 - mean) ** (6 - sum(bits))
        * math.exp(log_wealth(bits, 0.5, side=side)[-1])
        for bits in itertools.product((0.0, 1.0), repeat=6)
    )

    assert expected < 1.0


@given(unit_lists, st.integers(0, 29), st.floats(0, 1))
def test_a_bet_depends_on_earlier_values_only(values, position, other):
    position = min(position, len(values) - 1)
    changed = [*values[:position], *([other] * (len(values) - position))]

    before = predictable_bets(np.array(values), 0.05)[: position + 1]
    after = predictable_bets(np.array(changed), 0.05)[: position + 1]
    assert np.array_equal(before, after)


@given(unit_lists, st.floats(0, 1))
def test_log_form_equals_product_form_and_wealth_stays_positive(values, m):
    path = np.exp(log_wealth(values, m))
    wealth, products = 1.0, []
    for value, bet in zip(values, predictable_bets(np.array(values), 0.05), strict=True):
        wealth *= 1 + min(bet, 0.5 / m if m > 1e-6 else 1e6) * (value - m)
        products.append(wealth)

    assert np.allclose(path, products, rtol=1e-8)
    assert (path > 0).all()


@given(unit_lists, st.floats(0, 1))
def test_mirroring_the_data_swaps_the_sides(values, m):
    mirrored = 1 - np.array(values)

    assert np.allclose(
        log_wealth(values, m, side="greater"), log_wealth(mirrored, 1 - m, side="less"), atol=1e-6
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=15))
def test_mirroring_the_data_mirrors_the_sequence(values):
    straight = confidence_sequence(values)
    mirrored = confidence_sequence(1 - np.array(values))

    assert np.allclose(mirrored.low, 1 - straight.high, atol=1e-9)
    assert np.allclose(mirrored.high, 1 - straight.low, atol=1e-9)


def test_the_sequence_is_nested_and_its_ends_are_roots_of_the_wealth():
    data = np.random.default_rng(0).beta(6, 2, size=200)
    sequence = confidence_sequence(data, alpha=0.05)

    assert (np.diff(sequence.low) >= 0).all()
    assert (np.diff(sequence.high) <= 0).all()
    assert sequence.low[-1] < data.mean() < sequence.high[-1]
    assert sequence.high[-1] - sequence.low[-1] < 0.12
    just_below = log_wealth(data, sequence.low[-1] - 1e-6, alpha=0.025).max()
    just_above = log_wealth(data, sequence.low[-1] + 1e-6, alpha=0.025).max()
    assert just_above < math.log(2 / 0.05) <= just_below


def test_the_sequence_misses_the_mean_at_any_look_in_at_most_alpha_of_runs():
    rng = np.random.default_rng(1)
    runs, alpha, mean = 150, 0.1, 0.3
    misses = 0
    for _ in range(runs):
        sequence = confidence_sequence(rng.binomial(1, mean, size=80), alpha=alpha)
        misses += bool(((sequence.low > mean) | (sequence.high < mean)).any())

    assert misses <= stats.binom.ppf(0.999, runs, alpha)


def test_the_test_stops_at_the_first_crossing_and_stays_rejected():
    data = [1.0] * 40 + [0.0] * 200
    outcome = betting_test(data, 0.5, alpha=0.05)

    assert outcome.rejected_at is not None
    assert outcome.rejected_at <= 40
    assert outcome.log_e < math.log(1 / 0.05)  # the later loss does not undo the rejection
    assert outcome.n == 240


def test_false_alarms_of_continuous_peeking_stay_below_alpha():
    rng = np.random.default_rng(2)
    runs, alpha = 400, 0.05
    alarms = sum(
        betting_test(rng.beta(2, 2, size=300), 0.5, alpha=alpha).rejected_at is not None
        for _ in range(runs)
    )

    assert alarms <= stats.binom.ppf(0.999, runs, alpha)


def test_no_values_are_no_evidence():
    outcome = betting_test([], 0.5)

    assert (outcome.log_e, outcome.rejected_at, outcome.n) == (0.0, None, 0)
    assert len(confidence_sequence([]).low) == 0


@pytest.mark.parametrize(
    ("values", "arguments", "message"),
    [
        ([0.5, 1.2], {"m": 0.5}, "value 1 is 1.2"),
        ([math.nan], {"m": 0.5}, "value 0"),
        ([0.5], {"m": 1.5}, "tested mean"),
        ([0.5], {"m": 0.5, "alpha": 0.0}, "alpha"),
        ([0.5], {"m": 0.5, "cap": 1.0}, "cap"),
        ([[0.5]], {"m": 0.5}, "one-dimensional"),
    ],
)
def test_impossible_input_is_refused(values, arguments, message):
    with pytest.raises(ConfigError, match=message):
        log_wealth(values, **arguments)
