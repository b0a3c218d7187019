import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from specdecode.errors import ConfigError
from specdecode.statistics.beta_binomial import log_e as beta_log_e
from specdecode.statistics.sample_ratio import log_e, sample_ratio_test

count_lists = st.lists(st.integers(0, 500), min_size=3, max_size=3)


@pytest.mark.parametrize(("weights", "t"), [((1, 1), 10), ((9, 1), 10), ((5, 3, 2), 7)])
def test_evidence_is_fair_under_the_declared_shares(weights, t):
    """Exact enumeration of every assignment."""
    shares = np.array(weights) / sum(weights)
    mean = 0.0
    for arms in itertools.product(range(len(weights)), repeat=t):
        counts = np.bincount(arms, minlength=len(weights))
        mean += math.prod(shares[list(arms)]) * math.exp(log_e(counts, weights, concentration=5))

    assert mean == pytest.approx(1.0, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 300), st.integers(0, 300), st.floats(0.1, 0.9))
def test_two_arms_are_the_beta_mixture(first, second, share):
    expected = beta_log_e(first, first + second, share, prior=(40 * share, 40 * (1 - share)))

    assert log_e([first, second], [share, 1 - share], concentration=20) == pytest.approx(
        float(expected), rel=1e-9, abs=1e-9
    )


def test_three_arms_equal_numeric_integration():
    counts, weights = (7, 2, 4), (5, 3, 2)
    shares, mixing = np.array(weights) / 10, stats.dirichlet(np.array(weights) * 0.6)

    def ratio(y, x):
        point = np.array([x, y, 1 - x - y])
        return mixing.pdf(point) * np.prod((point / shares) ** np.array(counts))

    expected = integrate.dblquad(ratio, 0, 1, 0, lambda x: 1 - x)[0]
    assert math.exp(log_e(counts, weights, concentration=2)) == pytest.approx(expected, rel=1e-6)


@given(count_lists, st.permutations(range(3)))
def test_renaming_arms_together_with_their_weights_changes_nothing(counts, order):
    weights = [5.0, 3.0, 2.0]

    assert log_e(np.array(counts)[order], [weights[arm] for arm in order]) == pytest.approx(
        float(log_e(counts, weights)), abs=1e-9
    )


def test_exchanging_arms_without_their_weights_is_found():
    assert log_e([900, 100], [9, 1]) < 0
    assert log_e([100, 900], [9, 1]) > math.log(1000)


@given(count_lists, st.floats(0.01, 100))
def test_only_the_ratio_of_the_weights_matters(counts, factor):
    assert log_e(counts, [5 * factor, 3 * factor, 2 * factor]) == pytest.approx(
        float(log_e(counts, [5, 3, 2])), abs=1e-8
    )


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_each_look_sees_the_assignments_so_far(arms):
    paths = [
        float(log_e(np.bincount(arms[:n], minlength=3), [8, 1, 1], concentration=1))
        for n in range(1, len(arms) + 1)
    ]
    reached = [n for n, evidence in enumerate(paths, start=1) if evidence >= math.log(1 / 0.3)]

    outcome = sample_ratio_test(arms, [8, 1, 1], alpha=0.3, concentration=1)
    assert outcome.log_e == pytest.approx(paths[-1])
    assert outcome.rejected_at == (reached[0] if reached else None)


def test_lost_telemetry_in_one_arm_is_found_and_stays_found():
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 2, size=4000)
    lost = (arms == 1) & (rng.random(4000) < 0.2)

    assert sample_ratio_test(arms, [1, 1]).rejected_at is None
    outcome = sample_ratio_test(arms[~lost], [1, 1])
    assert outcome.rejected_at is not None
    balanced = np.concatenate([arms[~lost], np.ones(2 * lost.sum(), dtype=int)])
    assert sample_ratio_test(balanced, [1, 1]).rejected_at == outcome.rejected_at


def test_false_alarms_at_any_assignment_stay_below_alpha():
    rng = np.random.default_rng(1)
    runs, alpha = 500, 0.05
    alarms = sum(
        sample_ratio_test(
            rng.choice(3, p=[0.5, 0.3, 0.2], size=500), [5, 3, 2], alpha=alpha
        ).rejected_at
        is not None
        for _ in range(runs)
    )

    assert alarms <= stats.binom.ppf(0.999, runs, alpha)


def test_no_assignments_are_no_evidence():
    outcome = sample_ratio_test([], [1, 1])

    assert (outcome.log_e, outcome.rejected_at, outcome.n) == (0.0, None, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_e([1], [1]), "two or more"),
        (lambda: log_e([1, 1], [1, 0]), "positive"),
        (lambda: log_e([1, 1], [1, math.nan]), "positive"),
        (lambda: log_e([1, 1, 1], [1, 1]), "do not match"),
        (lambda: log_e([1, -1], [1, 1]), "negative"),
        (lambda: log_e([1, 1], [1, 1], concentration=0), "concentration"),
        (lambda: sample_ratio_test([0, 2], [1, 1]), "unit 1 has arm 2"),
        (lambda: sample_ratio_test([0], [1, 1], alpha=1), "alpha"),
        (lambda: sample_ratio_test([[0, 1]], [1, 1]), "one-dimensional"),
    ],
)
def test_impossible_input_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
