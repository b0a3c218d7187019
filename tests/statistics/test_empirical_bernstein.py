import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics import betting
from specdecode.statistics.empirical_bernstein import EmpiricalBernstein, confidence_sequence

unit_lists = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(unit_lists)
def test_the_bounds_are_those_of_the_formula(values):
    """Value by value, straight from theorem 2 with 4 (X - mu)^2 and psi / 4."""
    total, squares, mean, variance = 0.0, 0.0, 0.5, 0.25
    weight = weighted = penalty = 0.0
    low, high = 0.0, 1.0
    for i, x in enumerate(values, start=1):
        bet = min(math.sqrt(2 * math.log(2 / 0.05) / (variance * i * math.log(1 + i))), 0.5)
        weight += bet
        weighted += bet * x
        penalty += 4 * (x - mean) ** 2 * (-math.log(1 - bet) - bet) / 4
        radius = (math.log(2 / 0.05) + penalty) / weight
        low, high = max(low, weighted / weight - radius), min(high, weighted / weight + radius)
        total += x
        mean = (0.5 + total) / (i + 1)
        squares += (x - mean) ** 2
        variance = (0.25 + squares) / (i + 1)

    sequence = confidence_sequence(values)
    assert sequence.low[-1] == pytest.approx(low, abs=1e-12)
    assert sequence.high[-1] == pytest.approx(high, abs=1e-12)


@given(unit_lists, st.lists(st.integers(0, 30), max_size=4))
def test_blocks_give_what_the_whole_gives(values, cuts):
    whole = confidence_sequence(values)
    stream = EmpiricalBernstein()
    parts = [stream.update(block) for block in np.split(np.array(values), sorted(cuts))]

    assert np.allclose(np.concatenate([part.low for part in parts]), whole.low, atol=1e-12)
    assert np.allclose(np.concatenate([part.high for part in parts]), whole.high, atol=1e-12)


def test_streams_side_by_side_are_the_single_streams():
    rows = np.random.default_rng(0).random((5, 40))
    stream = EmpiricalBernstein(sides="low")
    stream.update(rows[:, :25])
    last = stream.update(rows[:, 25:])

    for row, low in zip(rows, last.low, strict=True):
        assert np.allclose(low, confidence_sequence(row, sides="low").low[25:])


@given(unit_lists)
def test_mirroring_the_data_mirrors_the_bounds(values):
    straight, mirrored = confidence_sequence(values), confidence_sequence(1 - np.array(values))

    assert np.allclose(mirrored.low, 1 - straight.high, atol=1e-9)
    assert np.allclose(mirrored.high, 1 - straight.low, atol=1e-9)


@given(unit_lists, st.floats(0, 1))
def test_the_penalty_of_a_value_uses_what_was_known_before_it(values, other):
    before = confidence_sequence(values).low
    after = confidence_sequence([*values, other]).low

    assert np.allclose(after[:-1], before, atol=1e-12)


def test_one_sided_bounds_are_narrower_and_leave_the_other_end_open():
    data = np.random.default_rng(1).beta(4, 2, size=300)
    both, low = confidence_sequence(data), confidence_sequence(data, sides="low")
    high = confidence_sequence(data, sides="high")

    assert low.low[-1] > both.low[-1]
    assert high.high[-1] < both.high[-1]
    assert (low.high == 1).all()
    assert (high.low == 0).all()


def test_the_bounds_are_nested_and_wider_than_by_betting():
    data = np.random.default_rng(2).beta(6, 2, size=400)
    closed, exact = confidence_sequence(data), betting.confidence_sequence(data)

    assert (np.diff(closed.low) >= 0).all()
    assert (np.diff(closed.high) <= 0).all()
    assert closed.low[-1] < exact.low[-1] < data.mean() < exact.high[-1] < closed.high[-1]


def test_the_mean_is_missed_at_any_look_in_at_most_alpha_of_runs():
    rng = np.random.default_rng(3)
    runs, alpha, mean = 2000, 0.1, 0.1
    found = EmpiricalBernstein(alpha=alpha).update(rng.binomial(1, mean, size=(runs, 200)))
    misses = int(((found.low > mean) | (found.high < mean)).any(axis=1).sum())

    assert misses <= stats.binom.ppf(0.999, runs, alpha)


def test_no_values_give_no_bounds():
    assert len(confidence_sequence([]).low) == 0


@pytest.mark.parametrize(
    ("values", "arguments", "message"),
    [
        ([0.5, -0.1], {}, "value 1 is -0.1"),
        ([0.5], {"alpha": 1.0}, "alpha"),
        ([0.5], {"cap": 1.0}, "cap"),
        ([[0.5]], {}, "one-dimensional"),
    ],
)
def test_impossible_input_is_refused(values, arguments, message):
    with pytest.raises(ConfigError, match=message):
        confidence_sequence(values, **arguments)
