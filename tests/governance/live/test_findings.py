"""Bounds, moments and thresholds say the same, whatever rounding does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.governance import Outcome
from specdecode.governance.live.findings import Finding, Stream, of_one, of_two
from specdecode.governance.live.judge import outcome_of
from specdecode.governance.live.margins import Scale

VALUES = st.lists(st.sampled_from([0.0, 0.25, 1.0]), max_size=80).map(np.array)


@settings(max_examples=80, deadline=None)
@given(
    VALUES,
    st.sampled_from(["betting", "empirical-bernstein"]),
    st.floats(0.05, 0.95),
    st.booleans(),
)
def test_the_ends_lie_where_the_moments_say(values, method, threshold, higher):
    scale = Scale(-2.0, 2.0, 4 * threshold - 2, higher)
    found = of_one(method, 4 * values - 2, scale, 0.1, 10)

    if not len(values):
        assert found == Finding(0)
        return
    assert found.low <= found.high
    asked = scale.threshold
    good, bad = (found.low >= asked, found.high < asked) if higher else (
        found.high <= asked, found.low > asked)  # fmt: skip
    assert bad == (found.bad_at is not None)
    assert found.empty or good == (found.good_at is not None)
    assert found.ready_at == (10 if len(values) >= 10 else None)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 20), st.integers(2, 20), st.booleans())
def test_two_arms_are_decided_at_a_prefix_as_they_were_then(seed, n, m, higher):
    rng = np.random.default_rng(seed)
    arm = Stream((rng.random(n) < 0.95).astype(float), np.sort(rng.integers(0, 99, n)))
    base = Stream((rng.random(m) < 0.05).astype(float), np.sort(rng.integers(0, 99, m)))
    scale = Scale(-1.0, 1.0, 0.1, higher)
    whole = of_two("betting", arm, base, (0.0, 1.0), scale, 0.2, 2)
    found = []
    for i in range(1, n + 1):
        known = m if i == n else int(np.searchsorted(base.time, arm.time[i]))
        ours = Stream(arm.values[:i], arm.time[:i])
        theirs = Stream(base.values[:known], base.time[:known])
        then = of_two("betting", ours, theirs, (0.0, 1.0), scale, 0.2, 2)
        found.append(then.good_at is not None or then.bad_at is not None)

    assert found == sorted(found)  # once decided, always
    assert found[-1] == (whole.good_at is not None or whole.bad_at is not None)


def test_two_arms_wait_for_the_one_with_fewer_units():
    arm = Stream(np.ones(50), np.arange(50))
    few = Stream(np.zeros(9), np.arange(9) * 5)
    found = of_two("betting", arm, few, (0.0, 1.0), Scale(-1, 1, 0.0, higher=True), 0.1, 10)

    assert found.n == 9
    assert found.ready_at is None
    assert found.good_at is not None
    assert outcome_of("primary", found) == (Outcome.INSUFFICIENT, None)


@pytest.mark.parametrize(
    ("role", "found", "outcome"),
    [
        ("primary", Finding(40, 0, 0, 1, 10, 5, None), (Outcome.PASS, 10)),
        ("primary", Finding(40, 0, 0, 1, 10, 25, None), (Outcome.PASS, 25)),
        ("primary", Finding(40, 0, 0, 1, 10, None, None), (Outcome.UNDECIDED, None)),
        ("primary", Finding(40, 0, 0, 1, 10, 12, 30), (Outcome.FAIL, 30)),
        ("primary", Finding(5, 0, 0, 1, None, 4, None), (Outcome.INSUFFICIENT, None)),
        ("primary", Finding(5, 0, 0, 1, None, None, 4), (Outcome.FAIL, 4)),
        ("guardrail", Finding(40, 0, 0, 1, 10, 5, None), (Outcome.PASS, None)),
        ("guardrail", Finding(40, 0, 0, 1, 10, None, None), (Outcome.PASS, None)),
        ("guardrail", Finding(5, 0, 0, 1, None, None, None), (Outcome.INSUFFICIENT, None)),
        ("guardrail", Finding(5, 0, 0, 1, None, None, 3), (Outcome.FAIL, 3)),
        ("secondary", Finding(40, 0, 0, 1, 10, None, None), (Outcome.UNDECIDED, None)),
        ("secondary", Finding(0), (Outcome.INSUFFICIENT, None)),
    ],
)
def test_a_role_makes_an_outcome_of_a_finding(role, found, outcome):
    assert outcome_of(role, found) == outcome


def test_where_no_common_mean_fits_nothing_good_was_shown():
    """First clearly good, then failing throughout: the mean of all is of no use to anyone."""
    values = np.concatenate([np.ones(400), np.zeros(4000)])
    scale = Scale(0, 1, 0.5, higher=True)
    before, after = (of_one("betting", values[:n], scale, 0.05, 1) for n in (400, 4400))

    assert outcome_of("primary", before) == (Outcome.PASS, 6)
    assert after.empty
    assert outcome_of("primary", after) == outcome_of("guardrail", after)
    assert outcome_of("primary", after) == (Outcome.UNDECIDED, None)
