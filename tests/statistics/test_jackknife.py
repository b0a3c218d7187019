"""Student's t by leaving out prompts: textbook values, invariances, and how often it errs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.jackknife import of_sums, ratio_interval, ratio_of_ratios_interval

TOKENS, SECONDS = [5.0, 20.0, 9.0, 7.0], [0.5, 2.0, 1.5, 0.9]
BASE_TOKENS, BASE_SECONDS = [5.0, 10.0, 8.0, 7.0], [1.0, 2.0, 2.5, 1.1]

positive = st.floats(0.1, 10)


def ends(interval):
    return interval.estimate, interval.low, interval.high


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30), st.sampled_from([0.8, 0.95, 0.99]))
def test_of_a_mean_it_is_students_interval(values, level):
    """Leaving out one value at a time gives exactly s/√n for a mean."""
    found = ratio_interval(values, [1.0] * len(values), level=level)
    n, mean = len(values), float(np.mean(values))
    reach = stats.t.ppf((1 + level) / 2, n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)

    assert ends(found) == pytest.approx((mean, mean - reach, mean + reach), abs=1e-9)
    assert (found.n, found.level, found.method) == (n, level, "jackknife-t")


def test_a_ratio_of_two_prompts_by_hand():
    # Sums 33/12 = 2.75; without the first 32/11, without the second 3/2.
    found = ratio_interval([1.0, 32.0], [1.0, 11.0], level=0.5)
    apart = (32 / 11 - 1) / 2  # without the second prompt 1/1

    assert found.estimate == pytest.approx(33 / 12)
    # SE² = 1/2 · 2 · apart², and Student's t with one degree of freedom has its quartile at 1.
    assert found.high - found.estimate == pytest.approx(apart)
    assert found.estimate - found.low == pytest.approx(apart)


def test_each_side_of_a_speed_ratio_is_pooled_before_they_are_compared():
    found = ratio_of_ratios_interval((TOKENS, SECONDS), (BASE_TOKENS, BASE_SECONDS))

    assert found.estimate == pytest.approx((41 / 4.9) / (30 / 6.6))
    assert found.low < found.estimate < found.high
    assert found.n == 4


def test_exchanging_the_sides_inverts_the_interval():
    one, other = (TOKENS, SECONDS), (BASE_TOKENS, BASE_SECONDS)
    forward, backward = ratio_of_ratios_interval(one, other), ratio_of_ratios_interval(other, one)

    assert ends(backward) == pytest.approx(
        (1 / forward.estimate, 1 / forward.high, 1 / forward.low)
    )


@given(st.lists(st.tuples(positive, positive, positive, positive), min_size=2, max_size=12),
       st.floats(0.25, 4))  # fmt: skip
def test_scaling_one_side_scales_the_ratio(rows, factor):
    columns = [list(column) for column in zip(*rows, strict=True)]
    plain = ratio_of_ratios_interval(tuple(columns[:2]), tuple(columns[2:]))
    columns[0] = [factor * value for value in columns[0]]
    scaled = ratio_of_ratios_interval(tuple(columns[:2]), tuple(columns[2:]))

    assert (plain is None) == (scaled is None)
    if plain is not None:
        assert ends(scaled) == pytest.approx([factor * end for end in ends(plain)], rel=1e-6)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=12), st.randoms())
def test_neither_order_nor_repeats_of_all_rows_matter(rows, random):
    def of(rows, keys):
        return ends(ratio_interval(*map(list, zip(*rows, strict=True)), clusters=keys))

    keys = list(range(len(rows)))
    mixed = random.sample(keys, len(keys))

    assert of([rows[k] for k in mixed], mixed) == pytest.approx(of(rows, keys))
    assert of(rows * 3, keys * 3) == pytest.approx(of(rows, keys))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_one_prompt_says_nothing_however_many_rows_it_has(rows):
    ones = [1.0] * rows

    assert ratio_interval(ones, ones, clusters=["a"] * rows) is None
    assert ratio_of_ratios_interval((ones, ones), (ones, ones), clusters=["a"] * rows) is None


@pytest.mark.parametrize("place", range(1, 4))
def test_a_denominator_that_hangs_on_one_prompt_gives_no_interval(place):
    parts = [[1.0, 2.0, 3.0] for _ in range(4)]
    parts[place] = [0.0, 1.0, 0.0]

    assert ratio_of_ratios_interval(tuple(parts[:2]), tuple(parts[2:])) is None
    assert ratio_interval([1.0, 2.0, 3.0], [0.0, 1.0, 0.0]) is None


def test_equal_ratios_give_a_point():
    assert ends(ratio_interval([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])) == pytest.approx((2.0, 2.0, 2.0))


def test_six_prompts_that_happen_to_be_slower_are_no_alarm_at_a_shared_level():
    """A bootstrap of them ends below 1 at every level: no sample of them can be faster."""
    seconds = [1.02, 1.10, 1.01, 1.30, 1.05, 1.15]
    found = ratio_of_ratios_interval(
        ([1.0] * 6, seconds), ([1.0] * 6, [1.0] * 6), level=1 - 0.05 / 23
    )

    assert found.estimate < 1 < found.high


def test_bad_values_are_refused_with_their_row():
    with pytest.raises(ConfigError, match="numerator of row 1 is missing"):
        ratio_interval([1.0, math.nan], [1.0, 1.0])
    with pytest.raises(ConfigError, match="paired row by row"):
        ratio_of_ratios_interval(([1.0], [1.0]), ([1.0] * 2, [1.0] * 2))
    with pytest.raises(ConfigError, match="level"):
        ratio_interval([1.0, 2.0], [1.0, 1.0], level=1.0)


@pytest.mark.parametrize(("prompts", "level"), [(6, 1 - 0.05 / 23), (20, 0.95), (100, 0.95)])
def test_identical_arms_alarm_no_more_often_than_promised(prompts, level):
    """20 000 runs; five standard errors above the promise would be no accident."""
    runs = 20_000
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(runs):
        seconds = rng.lognormal(0, 0.15, (2, prompts))
        tokens = rng.integers(16, 46, (2, prompts)).astype(float)
        sums = np.stack([tokens[0], tokens[0] * seconds[0], tokens[1], tokens[1] * seconds[1]])
        wrong += of_sums(sums, level).high < 1
    promised = (1 - level) / 2

    assert wrong <= runs * promised + 5 * math.sqrt(runs * promised)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_it_meets_the_bootstrap_at_four_hundred_prompts(seed):
    from specdecode.statistics.bootstrap import paired_ratio_interval

    rng = np.random.default_rng(seed)
    bottom = rng.gamma(4, size=400)
    top = 2 * bottom * rng.lognormal(0, 0.3, 400)
    ours, theirs = ratio_interval(top, bottom), paired_ratio_interval(top, bottom, seed=seed)

    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) < 0.15 * width
    assert abs(ours.high - theirs.high) < 0.15 * width
