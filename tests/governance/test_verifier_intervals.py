"""The verifier's intervals, in plain Python, beside the library's and scipy's."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from specdecode.statistics import betting_interval
from specdecode.statistics import jackknife as library
from specdecode.statistics.binomial import proportion_interval

# The package has a function of the module's name.
verify = importlib.import_module("specdecode.governance.verifier.verify")

LEVELS = st.sampled_from([0.8, 0.95, 0.99, 1 - 0.05 / 23, 0.9999])
amounts = st.floats(0.01, 50)


# Nearer to 1 scipy itself is off: 1 - I_x(1/2, 1/2) of x = 1 - 2^-53 is 6.7e-9, it says 9.5e-9.
@given(st.floats(0, 1 - 1e-9), st.floats(0.5, 400), st.floats(0.5, 400))
def test_the_incomplete_beta_function(x, a, b):
    assert verify.beta_share(x, a, b) == pytest.approx(
        special.betainc(a, b, x), rel=1e-9, abs=1e-13
    )


def test_the_incomplete_beta_function_next_to_1():
    """I_x(1/2, 1/2) = 1 - (2/pi) asin sqrt(1 - x), known in closed form."""
    x = 1 - 2.0**-53
    wanted = 2 / math.pi * math.asin(math.sqrt(2.0**-53))

    assert 1 - verify.beta_share(x, 0.5, 0.5) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("freedom", [1, 2, 5, 16, 99, 4000, 1_000_000])
@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 0.05 / 23, 0.9999])
def test_students_quantile(level, freedom):
    wanted = stats.t.ppf((1 + level) / 2, freedom)

    assert verify.student(level, freedom) == pytest.approx(wanted, rel=1e-8)


@given(st.integers(2, 4), st.data(), LEVELS)
@settings(deadline=None)
def test_students_interval_is_the_librarys(half, data, level):
    size = 2 * (half // 2)
    rows = data.draw(
        st.lists(st.lists(amounts, min_size=size, max_size=size), min_size=1, max_size=30)
    )
    ours, theirs = verify.jackknife(rows, level), library.of_sums(np.array(rows).T, level)

    assert (ours is None) == (theirs is None)
    if theirs is not None:
        assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-8)


def test_nothing_is_stated_where_a_denominator_hangs_on_one_prompt():
    rows = [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 0.0]]

    assert verify.jackknife(rows, 0.95) is None
    assert library.of_sums(np.array(rows).T, 0.95) is None
    assert verify.jackknife([[1.0, 2.0]], 0.95) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e300, 1.7e308])
@pytest.mark.parametrize("width", [2, 4])
def test_amounts_at_the_end_of_all_numbers_give_the_same_or_nothing(size, width):
    rows = [[size * (1 + (i + j) % 3) if j % 2 else 10.0 for j in range(width)] for i in range(6)]
    ours, theirs = verify.jackknife(rows, 0.95), library.of_sums(np.array(rows).T, 0.95)

    assert (ours is None) == (theirs is None)
    if theirs is not None:
        assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-8)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=60),
       LEVELS, st.integers(0, 2**32))  # fmt: skip
@settings(deadline=None)
def test_the_betting_interval_is_the_librarys(differences, level, seed):
    base = np.where(np.array(differences) < 0, 1.0, 0.0)
    theirs = betting_interval.difference_interval(base + differences, base, level=level, seed=seed)

    found = verify.betting(differences, level, seed)
    assert found == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_the_betting_interval_of_many_prompts_looks_as_often_as_the_librarys():
    rng = np.random.default_rng(0)
    first, second = (rng.integers(0, 2, 9000).astype(float) for _ in range(2))
    theirs = betting_interval.difference_interval(first, second, level=0.95, seed=7)

    found = verify.betting((first - second).tolist(), 0.95, 7)
    assert found == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@given(st.integers(1, 200), st.data(), LEVELS)
def test_shares_have_clopper_and_pearsons_interval(n, data, level):
    found = data.draw(st.integers(0, n))
    theirs = proportion_interval(found, n, level=level)

    assert verify.proportion(found, n, level) == pytest.approx((theirs.low, theirs.high), rel=1e-8)
