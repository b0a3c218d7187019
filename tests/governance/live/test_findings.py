"""Bounds, moments and thresholds say the same, whatever rounding does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.governance import Outcome
from specdecode.governance.live.bounds import crossing, lower_bound
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


COLD = {"betting": 2, "empirical-bernstein": 8, "beta-binomial": 1}
"""Late requests at the start that set a bound and show no harm yet."""


def one(method, values, higher, asked=0.5, n_min=300):
    values = np.concatenate(values)
    if not higher:
        values, asked = 1 - values, 1 - asked
    return of_one(method, values, Scale(0, 1, asked, higher), 0.05, n_min)


@pytest.mark.parametrize("method", list(COLD))
@pytest.mark.parametrize("higher", [True, False])
def test_a_cold_start_is_no_change_for_the_worse(method, higher):
    start = np.zeros(COLD[method])
    at_first = one(method, [start], higher)
    found = one(method, [start, np.ones(4000)], higher)

    assert at_first.bad_at is None
    set_then = at_first.high if higher else 1 - at_first.low
    shown_later = found.low if higher else 1 - found.high
    assert set_then < shown_later  # no common mean fits
    assert not found.empty
    assert (found.high if higher else found.low) == float(higher)
    assert outcome_of("primary", found)[0] is Outcome.PASS
    assert outcome_of("guardrail", found) == (Outcome.PASS, None)


@pytest.mark.parametrize("method", ["betting", "beta-binomial"])
@pytest.mark.parametrize("higher", [True, False])
def test_what_becomes_worse_after_a_cold_start_is_a_change_for_the_worse(method, higher):
    found = one(method, [np.zeros(3), np.ones(4000), np.zeros(1200)], higher)

    assert found.bad_at is None
    assert found.empty
    assert outcome_of("primary", found) == (Outcome.UNDECIDED, None)


def test_a_cold_start_is_forgiven_after_enough_units_only():
    values = [np.zeros(1), np.ones(400)]
    assert one("beta-binomial", values, higher=True, n_min=401).empty
    assert not one("beta-binomial", values, higher=True, n_min=400).empty


def test_a_dip_after_a_good_beginning_is_not_forgiven_though_all_is_well_again():
    """What was known to be good first has become worse on the way, whatever came after that."""
    found = one("betting", [np.ones(400), np.zeros(1000), np.ones(600)], higher=True, asked=0.1)
    assert found.bad_at is None
    assert found.empty


def test_harm_among_the_units_after_a_cold_start_is_not_forgiven():
    """Good throughout again at the end, but for a while it was not."""
    later = [np.ones(300), np.zeros(600), np.ones(6000)]
    found = one("betting", [np.zeros(2), *later], higher=True)
    assert found.bad_at is not None or found.empty


@pytest.mark.parametrize("method", list(COLD))
def test_where_a_start_is_forgiven_the_units_after_it_show_no_harm(method):
    """So nothing is asked about it: harm would have moved the bound that is left out."""
    rng, forgiven = np.random.default_rng(3), 0
    for _ in range(150):
        parts = [(rng.integers(1, 12), rng.random() / 2)]
        parts += [(rng.integers(1, 90), rng.choice([0.1, 0.5, 0.9, 1.0])) for _ in range(4)]
        values = np.concatenate([rng.random(n) < share for n, share in parts]).astype(float)
        most = 1 - lower_bound(method, 1 - values, 0.05)
        asked = most - 1e-6  # the worst threshold: a higher one is missed by all of the sequence
        found = one(method, [values], higher=True, asked=asked, n_min=1)
        if found.empty or found.bad_at is not None or found.high < 1:
            continue
        forgiven += 1
        start = crossing(method, 1 - values, 1 - most, 0.05)
        assert crossing(method, 1 - values[start:], 1 - asked, 0.05) is None

    assert forgiven > 20


def test_a_mean_that_rises_all_the_time_is_held_and_soon_judged():
    rising = np.linspace(0.6, 1.0, 20_000)
    assert one("betting", [rising], higher=True).empty


def test_of_two_arms_no_start_is_forgiven():
    """The bounds of a difference cross where the baseline gets worse, too."""
    arm = Stream(np.append(np.zeros(6), np.ones(3000)), np.arange(3006))
    base = Stream(np.full(3006, 0.5), np.arange(3006))
    found = of_two("betting", arm, base, (0.0, 1.0), Scale(-1, 1, -0.3, higher=True), 0.05, 10)

    assert (found.bad_at, found.empty) == (None, True)
