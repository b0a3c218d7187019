"""What the sequential methods share: the outcome of a test, and what input they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.statistics.sequential import (
    check_inside,
    check_side,
    check_within,
    indicator_values,
    one_dimensional,
    sequential_test,
    unit_values,
)

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def refused(call, *arguments):
    try:
        call(*arguments)
    except ConfigError:
        return True
    return False


@given(st.lists(st.floats(-5, 5), max_size=20), st.floats(0.001, 0.999))
def test_a_rejection_is_the_first_value_that_reaches_the_threshold(path, alpha):
    outcome = sequential_test(np.array(path, dtype=float), alpha)
    reached = [i + 1 for i, value in enumerate(path) if value >= math.log(1 / alpha)]

    assert outcome.rejected_at == (reached[0] if reached else None)
    assert outcome.log_e == (path[-1] if path else 0.0)
    assert outcome.n == len(path)


@given(NUMBERS)
def test_the_open_and_the_closed_interval_differ_in_their_ends_only(number):
    inside = 0 < number < 1
    within = 0 <= number <= 1

    assert refused(check_inside, "alpha", number) is not inside
    assert refused(check_within, "mean", number) is not within


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_inside("h", 3, 3, 4), r"h must lie inside \(3, 4\), not 3"),
        (lambda: check_within("m", 4.5, 3, 4), r"m must lie in \[3, 4\], not 4.5"),
        (lambda: check_side("above"), "side must be greater or less, not 'above'"),
    ],
)
def test_a_refusal_says_what_is_allowed(check, message):
    with pytest.raises(ConfigError, match=message):
        check()


def test_both_sides_are_known():
    check_side("greater")
    check_side("less")


@given(st.lists(st.one_of(st.just(0), st.just(1), NUMBERS), max_size=10))
def test_values_pass_as_they_are_or_the_first_bad_one_is_named(values):
    for read, good, name in (
        (unit_values, lambda v: 0 <= v <= 1, "value"),
        (indicator_values, lambda v: v in (0, 1), "indicator"),
    ):
        bad = [i for i, value in enumerate(values) if not good(value)]
        if not bad:
            assert read(values).tolist() == values
            continue
        with pytest.raises(ConfigError, match=f"^{name} {bad[0]} is "):
            read(values)


def test_many_streams_are_values_but_not_one_stream():
    assert unit_values([[0.0, 1.0], [0.5, 0.5]]).shape == (2, 2)
    for read in (one_dimensional, indicator_values):
        with pytest.raises(ConfigError, match="one-dimensional"):
            read([[0.0, 1.0]])
        with pytest.raises(ConfigError, match="one-dimensional"):
            read(1.0)
