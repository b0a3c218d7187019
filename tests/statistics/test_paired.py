import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.paired import (
    harm_test,
    non_inferiority_test,
    paired_differences,
    threshold,
)

rows = st.lists(
    st.tuples(
        st.none() | st.floats(-2, 6), st.none() | st.floats(-2, 6), st.sampled_from("abcdef")
    ),
    max_size=30,
)
BOUNDS = (-2.0, 6.0)


@given(rows)
def test_nothing_is_dropped_silently(rows):
    first, second, clusters = ([row[i] for row in rows] for i in range(3))
    found = paired_differences(first, second, bounds=BOUNDS, clusters=clusters)

    whole = [row for row in rows if None not in row]
    assert found.pairs == len(rows)
    assert found.missing == len(rows) - len(whole)
    assert len(found.values) == len({row[2] for row in whole})
    assert found.empty_clusters == len(set(clusters)) - len(found.values)


@given(rows)
def test_each_cluster_gives_its_mean_in_the_order_of_its_first_pair(rows):
    first, second, clusters = ([row[i] for row in rows] for i in range(3))
    found = paired_differences(first, second, bounds=BOUNDS, clusters=clusters)

    expected = []
    for cluster in dict.fromkeys(clusters):
        gains = [a - b for a, b, c in rows if c == cluster and a is not None and b is not None]
        if gains:
            expected.append((sum(gains) / len(gains) / 8 + 1) / 2)
    assert found.values == pytest.approx(expected, abs=1e-12)
    assert ((found.values >= 0) & (found.values <= 1)).all()


@given(rows)
def test_exchanging_the_arms_mirrors_every_value(rows):
    first, second, clusters = ([row[i] for row in rows] for i in range(3))
    forward = paired_differences(first, second, bounds=BOUNDS, clusters=clusters)
    backward = paired_differences(second, first, bounds=BOUNDS, clusters=clusters)
    lower = paired_differences(first, second, bounds=BOUNDS, clusters=clusters, better="lower")

    assert backward.values == pytest.approx(1 - forward.values, abs=1e-12)
    assert lower.values == pytest.approx(backward.values)
    assert (backward.missing_first, backward.missing_second) == (
        forward.missing_second,
        forward.missing_first,
    )


def test_missing_values_are_counted_by_arm():
    found = paired_differences([1, None, 0, math.nan, 1], [0, 1, None, None, 1])

    assert found.values.tolist() == [1.0, 0.5]
    assert (found.missing_first, found.missing_second, found.missing_both) == (1, 1, 1)
    assert found.empty_clusters == 3


def test_the_mean_difference_is_in_the_unit_of_the_metric():
    found = paired_differences([30.0, 20.0], [10.0, 30.0], bounds=(0, 100))

    assert found.mean_difference == pytest.approx(5.0)
    assert paired_differences([], []).mean_difference is None


@given(st.floats(0, 7.9))
def test_the_threshold_is_where_the_mean_of_a_difference_of_minus_margin_falls(margin):
    found = paired_differences([6.0 - margin], [6.0], bounds=BOUNDS)

    assert threshold(margin, bounds=BOUNDS) == pytest.approx(found.values[0])


def test_repeats_of_one_conversation_add_no_evidence():
    once = paired_differences([1.0, 0.0], [0.0, 0.0], clusters=["a", "b"])
    often = paired_differences([1.0, 0.0] * 50, [0.0, 0.0] * 50, clusters=["a", "b"] * 50)

    assert non_inferiority_test(often, 0.1).log_e == non_inferiority_test(once, 0.1).log_e


def test_equal_arms_are_shown_not_inferior_and_raise_no_harm():
    quality = np.random.default_rng(0).random(300)
    found = paired_differences(list(quality), list(quality))

    assert non_inferiority_test(found, 0.05).rejected_at is not None
    assert harm_test(found, 0.05).rejected_at is None


def test_a_loss_beyond_the_margin_is_harm_and_never_permitted():
    rng = np.random.default_rng(1)
    quality = rng.random(400) * 0.5 + 0.5
    found = paired_differences(list(quality - 0.2), list(quality))

    assert harm_test(found, 0.05).rejected_at is not None
    assert non_inferiority_test(found, 0.05).rejected_at is None


@pytest.mark.parametrize("which", ["permission", "alarm"])
def test_at_exactly_the_margin_either_error_stays_below_alpha(which):
    rng = np.random.default_rng(2)
    test = non_inferiority_test if which == "permission" else harm_test
    runs, alpha, errors = 300, 0.05, 0
    for _ in range(runs):
        first, second = rng.binomial(1, 0.7, size=300), rng.binomial(1, 0.8, size=300)
        errors += test(paired_differences(first, second), 0.1, alpha=alpha).rejected_at is not None

    assert errors <= stats.binom.ppf(0.999, runs, alpha)


def test_a_finite_set_of_conversations_needs_less_evidence():
    rng = np.random.default_rng(3)
    found = paired_differences(list(rng.random(200)), list(rng.random(200)))

    finite = non_inferiority_test(found, 0.1, population=200)
    assert finite.log_e > non_inferiority_test(found, 0.1).log_e


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_differences([1.0], []), "paired row by row"),
        (lambda: paired_differences([0.0, 1.5], [0.0, 0.0]), "first arm, row 1: 1.5"),
        (lambda: paired_differences([0.0], [-1.0]), "second arm, row 0: -1.0"),
        (lambda: paired_differences([0.0], [0.0], bounds=(1, 0)), "bounds"),
        (lambda: paired_differences([0.0], [0.0], bounds=(0, math.inf)), "bounds"),
        (lambda: paired_differences([0.0], [0.0], clusters=[None]), "cluster key"),
        (lambda: threshold(-0.1), "margin"),
        (lambda: threshold(1.0), "margin"),
        (lambda: threshold(math.nan), "margin"),
    ],
)
def test_impossible_input_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
