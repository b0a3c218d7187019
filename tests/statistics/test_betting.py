import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.betting import (
    betting_test,
    confidence_sequence,
    log_increments,
    log_wealth,
    log_wealth_by_mean,
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


@given(unit_lists, st.lists(st.floats(0, 1), min_size=1, max_size=4), st.sampled_from([0.5, 0.75]))
def test_one_stream_tested_at_many_means_has_the_wealth_of_each(values, means, cap):
    by_mean = log_wealth_by_mean(values, alpha=0.1, cap=cap)

    for m in means:
        assert by_mean(m).tolist() == log_wealth(values, m, alpha=0.1, cap=cap).tolist()


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
        ([0.5], {"m": math.nan}, "tested mean"),
        ([0.5], {"m": 0.5, "side": "grater"}, "side must be greater or less, not 'grater'"),
        ([[0.5]], {"m": 0.5}, "one-dimensional"),
    ],
)
def test_impossible_input_is_refused(values, arguments, message):
    with pytest.raises(ConfigError, match=message):
        log_wealth(values, **arguments)


class TestFinitePopulation:
    """A finite set read in random order without replacement."""

    @pytest.mark.parametrize("side", ["greater", "less"])
    @pytest.mark.parametrize("population", [[0, 0, 1, 1, 1], [0, 0.5, 0.5, 0.9, 1, 0.2]])
    def test_wealth_is_a_fair_game_under_every_order(self, side, population):
        orders = np.array(list(itertools.permutations(population)), dtype=float)

        increments = log_increments(
            orders, float(np.mean(population)), side=side, population=len(population)
        )
        assert np.exp(np.cumsum(increments, axis=1)).mean(axis=0) == pytest.approx(
            np.ones(len(population)), abs=1e-9
        )

    @pytest.mark.parametrize(("side", "m"), [("greater", 0.7), ("less", 0.5)])
    def test_a_mean_inside_the_null_makes_wealth_shrink(self, side, m):
        orders = np.array(list(itertools.permutations([0, 0, 1, 1, 1])), dtype=float)

        wealth = np.exp(np.cumsum(log_increments(orders, m, side=side, population=5), axis=1))
        assert (wealth.mean(axis=0) < 1).all()

    @given(unit_lists, st.integers(0, 20), st.floats(0.01, 0.99))
    def test_log_form_equals_product_form(self, values, unseen, m):
        size = len(values) + unseen
        path = log_wealth(values, m, population=size)
        wealth, seen = 1.0, 0.0
        bets = predictable_bets(np.array(values), 0.05)
        for step, (value, bet) in enumerate(zip(values, bets, strict=True)):
            rest = (size * m - seen) / (size - step)
            if rest < 0:
                assert seen / size < m + 1e-9 or path[step] == math.inf
                return
            wealth *= 1 + min(bet, 0.5 / max(rest, 5e-7)) * (value - rest)
            assert math.exp(path[step]) == pytest.approx(wealth, rel=1e-8)
            seen += value

    def test_values_that_rule_a_mean_out_reject_it_outright(self):
        # Three of four values sum to 3: the mean is at least 3/4, however the last one turns out.
        outcome = betting_test([1.0, 1.0, 1.0, 0.0], 0.7, population=4)

        assert outcome.log_e == math.inf
        assert outcome.rejected_at == 4
        assert betting_test([1.0, 1.0, 1.0, 0.0], 0.75, population=4).log_e < math.inf
        assert betting_test([0.0, 0.0, 0.0, 1.0], 0.3, side="less", population=4).log_e == math.inf

    @settings(deadline=None, max_examples=50)
    @given(unit_lists, st.integers(0, 10))
    def test_bounds_are_nested_and_inside_the_logical_ones(self, values, unseen):
        size = len(values) + unseen
        sequence = confidence_sequence(values, population=size)

        sums, rest = np.cumsum(values), size - np.arange(1, len(values) + 1)
        assert (sequence.low >= sums / size).all()
        assert (sequence.high <= (sums + rest) / size).all()
        assert (np.diff(sequence.low) >= 0).all()
        assert (np.diff(sequence.high) <= 0).all()

    def test_the_whole_set_gives_its_mean_exactly(self):
        data = np.random.default_rng(3).beta(3, 2, size=120)
        sequence = confidence_sequence(data, population=120)

        assert sequence.low[-1] == sequence.high[-1] == pytest.approx(data.mean())

    def test_bounds_are_tighter_than_with_replacement(self):
        data = np.random.default_rng(3).beta(3, 2, size=120)
        finite, infinite = confidence_sequence(data, population=150), confidence_sequence(data)

        assert finite.high[-1] - finite.low[-1] < 0.7 * (infinite.high[-1] - infinite.low[-1])

    def test_the_sequence_misses_the_mean_in_at_most_alpha_of_orders(self):
        rng = np.random.default_rng(4)
        runs, alpha = 150, 0.1
        population = np.array([0.0] * 30 + [1.0] * 50)
        misses = 0
        for _ in range(runs):
            sequence = confidence_sequence(rng.permutation(population), alpha=alpha, population=80)
            misses += bool(((sequence.low > 0.625) | (sequence.high < 0.625)).any())

        assert misses <= stats.binom.ppf(0.999, runs, alpha)

    def test_more_values_than_prompts_are_refused(self):
        with pytest.raises(ConfigError, match="without replacement"):
            log_wealth([0.5, 0.5], 0.5, population=1)


@pytest.mark.parametrize("population", [None, 400])
@pytest.mark.parametrize("data", ["beta", "bernoulli", "constant"])
def test_each_bound_is_the_outer_end_of_its_exact_root(data, population):
    """Every look, against bisection on the wealth itself."""
    rng = np.random.default_rng(7)
    values = {
        "beta": rng.beta(5, 2, size=300),
        "bernoulli": rng.binomial(1, 0.9, size=300).astype(float),
        "constant": np.ones(300),
    }[data]
    bounds = confidence_sequence(values, population=population).low
    needed = math.log(2 / 0.05)

    def wealth(m):
        return log_wealth(values, m, alpha=0.025, population=population)

    logical = np.cumsum(values) / population if population else np.zeros(300)
    for t in range(0, 300, 23):
        rejected, kept = 0.0, 1.0
        for _ in range(50):
            middle = (rejected + kept) / 2
            if wealth(middle)[: t + 1].max() >= needed:
                rejected = middle
            else:
                kept = middle
        exact = max(rejected, logical[t])
        assert exact - 1e-9 <= bounds[t] <= exact + 1e-12


def test_streams_side_by_side_are_the_single_streams():
    rows = np.random.default_rng(8).random((3, 4, 20))
    together = log_increments(rows, 0.4, side="less")

    for index in np.ndindex(3, 4):
        assert np.array_equal(together[index], log_increments(rows[index], 0.4, side="less"))


def test_ten_thousand_values_have_bounds_as_exact_as_few():
    values = np.random.default_rng(9).binomial(1, 0.97, size=10_000).astype(float)
    low = confidence_sequence(values).low

    needed = math.log(2 / 0.05)
    for t in (1000, 5000, 10_000):
        assert log_wealth(values[:t], low[t - 1] + 1e-9, alpha=0.025).max() < needed
        assert log_wealth(values[:t], low[t - 1] - 1e-9, alpha=0.025).max() >= needed
