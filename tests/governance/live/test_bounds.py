"""Bounds at the last look agree with the whole sequences they are the ends of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.governance.live.bounds import CAP, crossing, lower_bound
from specdecode.statistics import betting
from specdecode.statistics.beta_binomial import log_e_one_sided, rate_test

METHODS = ("betting", "empirical-bernstein", "beta-binomial")
BITS = st.lists(st.sampled_from([0.0, 1.0]), max_size=60).map(np.array)
LEVELS = st.sampled_from([0.01, 0.05, 0.2])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(METHODS), BITS, LEVELS, st.sampled_from([0.05, 0.5, 0.9]))
def test_a_threshold_is_crossed_exactly_where_the_bound_first_lies_above_it(method, x, alpha, m):
    found = crossing(method, x, m, alpha)
    bounds = [lower_bound(method, x[:t], alpha) for t in range(len(x) + 1)]

    assert bounds == sorted(bounds)
    if found is None:
        assert bounds[-1] <= m + 1e-9
    else:
        assert bounds[found] >= m - 1e-9
        assert bounds[found - 1] <= m + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40).map(np.array), LEVELS)
def test_bets_give_the_ends_of_the_confidence_sequence(x, alpha):
    whole = betting.confidence_sequence(x, alpha=2 * alpha, cap=CAP)

    assert lower_bound("betting", x, alpha) == pytest.approx(whole.low[-1], abs=1e-8)
    assert 1 - lower_bound("betting", 1 - x, alpha) == pytest.approx(whole.high[-1], abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(BITS.filter(len), LEVELS)
def test_the_mixture_of_rates_is_bounded_where_its_test_stops_rejecting(x, alpha):
    low = lower_bound("beta-binomial", x, alpha)
    won, seen = np.cumsum(x), np.arange(1, len(x) + 1)

    assert (log_e_one_sided(won, seen, low + 1e-6) < math.log(1 / alpha)).all()
    if low > 1e-6:
        assert rate_test(x, low - 1e-7, alpha=alpha).rejected_at is not None


@pytest.mark.parametrize("method", METHODS)
def test_nothing_seen_bounds_nothing(method):
    empty = np.empty(0)

    assert crossing(method, empty, 0.5, 0.05) is None
    assert lower_bound(method, empty, 0.05) == 0.0


def test_no_mean_is_shown_to_lie_above_one():
    assert crossing("betting", np.ones(1000), 1.0, 0.05) is None


@pytest.mark.parametrize("method", ["betting", "empirical-bernstein"])
def test_a_margin_of_nothing_is_not_crossed_by_nothing(method):
    """A closed form's bound starts at 0: "no request fails" was called broken by none failing."""
    assert crossing(method, np.zeros(1000), 0.0, 0.05) is None
    assert crossing(method, np.ones(1000), 0.0, 0.05) is not None


@pytest.mark.parametrize("method", METHODS)
def test_a_true_bound_is_crossed_no_more_often_than_promised(method):
    """All sequences of ten tosses: the exact chance of a false rejection at any look."""
    tosses = (np.arange(2**10)[:, None] >> np.arange(10)) & 1
    wrong = sum(crossing(method, each.astype(float), 0.5, 0.2) is not None for each in tosses)

    assert wrong / len(tosses) <= 0.2
