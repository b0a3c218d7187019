import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.statistics.bootstrap import paired_quantile_ratio_interval, paired_ratio_interval


def test_the_ratio_is_of_sums_and_not_the_mean_of_ratios():
    interval = paired_ratio_interval([1.0, 30.0, 2.0], [1.0, 10.0, 1.0], seed=0)

    assert interval is not None
    assert interval.estimate == pytest.approx(33 / 12)
    assert interval.low < interval.estimate < interval.high
    assert interval.n == 3


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_prompts_give_no_interval(rows):
    values = [1.0] * rows

    assert paired_ratio_interval(values, values, seed=0) is None
    assert paired_quantile_ratio_interval(values, values, 0.5, seed=0) is None


def test_many_rows_of_one_prompt_are_one_cluster():
    values = [1.0, 2.0, 3.0]

    assert paired_ratio_interval(values, values, clusters=["a"] * 3, seed=0) is None


def test_repeating_every_row_of_a_prompt_does_not_narrow_the_interval():
    top, bottom = [1.0, 4.0, 2.0, 8.0], [2.0, 3.0, 2.0, 5.0]
    once = paired_ratio_interval(top, bottom, clusters=[0, 1, 2, 3], seed=3)
    thrice = paired_ratio_interval(top * 3, bottom * 3, clusters=[0, 1, 2, 3] * 3, seed=3)

    assert once is not None
    assert thrice is not None
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_the_seed_alone_decides_the_draws():
    top, bottom = [1.0, 4.0, 2.0, 8.0, 3.0], [2.0, 3.0, 2.0, 5.0, 1.0]

    first = paired_ratio_interval(top, bottom, seed=1)
    assert first == paired_ratio_interval(top, bottom, seed=1)
    assert first != paired_ratio_interval(top, bottom, seed=2)


def test_identical_ratios_give_a_point_by_the_percentile_method():
    interval = paired_ratio_interval([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], seed=0)

    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((2.0, 2.0))
    assert interval.method == "percentile"


def test_a_denominator_that_can_vanish_gives_no_interval():
    assert paired_ratio_interval([1.0, 1.0], [0.0, 0.0], seed=0) is None
    # Half of the resamples of two prompts draw only the empty one.
    assert paired_ratio_interval([1.0, 1.0], [0.0, 1.0], seed=0) is None


def test_bad_values_are_refused_with_their_row():
    with pytest.raises(ConfigError, match="numerator of row 1"):
        paired_ratio_interval([1.0, math.nan], [1.0, 1.0], seed=0)
    with pytest.raises(ConfigError, match="denominator of row 0"):
        paired_ratio_interval([1.0, 1.0], [None, 1.0], seed=0)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="negative"):
        paired_ratio_interval([1.0, 1.0], [1.0, -1.0], seed=0)
    with pytest.raises(ConfigError, match="paired"):
        paired_ratio_interval([1.0], [1.0, 1.0], seed=0)
    with pytest.raises(ConfigError, match="row 1 has no cluster key"):
        paired_ratio_interval([1.0, 1.0], [1.0, 1.0], clusters=["a", None], seed=0)
    with pytest.raises(ConfigError, match="level"):
        paired_ratio_interval([1.0, 1.0], [1.0, 1.0], level=1.0, seed=0)


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says(method):
    rng = np.random.default_rng(5)
    runs, covered = 200, 0
    for run in range(runs):
        bottom = rng.gamma(4, size=40)
        top = 2 * bottom * rng.lognormal(-0.125, 0.5, size=40)
        interval = paired_ratio_interval(top, bottom, resamples=300, seed=run, method=method)
        assert interval is not None
        covered += interval.low <= 2.0 <= interval.high

    assert covered / runs > 0.88


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=3, max_size=12),
    st.floats(0.5, 4),
)
def test_scaling_one_arm_scales_the_ratio(pairs, factor):
    top, bottom = (list(side) for side in zip(*pairs, strict=True))
    plain = paired_ratio_interval(top, bottom, resamples=100, seed=0, method="percentile")
    scaled = paired_ratio_interval(
        [factor * value for value in top], bottom, resamples=100, seed=0, method="percentile"
    )

    assert plain is not None
    assert scaled is not None
    assert scaled.low == pytest.approx(factor * plain.low)
    assert scaled.high == pytest.approx(factor * plain.high)


def test_the_quantile_ratio_compares_quantiles_of_each_arm():
    top = [float(value) for value in range(1, 41)]
    bottom = [value / 2 for value in top]
    interval = paired_quantile_ratio_interval(top, bottom, 0.95, resamples=200, seed=0)

    assert interval is not None
    assert interval.estimate == pytest.approx(2.0)
    assert interval.low == pytest.approx(2.0)
    with pytest.raises(ConfigError, match="quantile"):
        paired_quantile_ratio_interval(top, bottom, 1.0, seed=0)
