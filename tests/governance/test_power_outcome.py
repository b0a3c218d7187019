"""What runs came to: chances with intervals, and how many units they took."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance.power_outcome import LEVEL, Chance, Ended, Simulation
from specdecode.governance.verdict import Status
from specdecode.statistics.binomial import proportion_interval

ENDS = st.lists(
    st.builds(Ended, st.sampled_from(list(Status)), st.integers(1, 500)), min_size=1, max_size=40
)


def of(*ends):
    return Simulation.of("canary", "request", 7, [Ended(*end) for end in ends])


@given(ENDS)
def test_chances_are_shares_with_their_intervals(ends):
    found = Simulation.of("canary", "request", 0, ends)

    assert sum(chance.count for chance in found.chances.values()) == found.runs == len(ends)
    for status, chance in found.chances.items():
        assert chance.count == sum(end.status is status for end in ends)
        interval = proportion_interval(chance.count, len(ends), level=LEVEL)
        assert (chance.rate, chance.low, chance.high) == (
            interval.estimate, interval.low, interval.high)  # fmt: skip


@given(ENDS, st.floats(0.01, 1))
def test_n_for_a_share_is_the_least_by_which_so_many_were_decided(ends, share):
    found = Simulation.of("canary", "request", 0, ends)
    n = found.n_for(share)

    def decided_by(most):
        return sum(end.status in (Status.GO, Status.NO_GO) and end.n <= most for end in ends)

    if n is None:
        assert decided_by(500) < share * len(ends)
    else:
        assert decided_by(n) >= share * len(ends) - 1e-6
        assert decided_by(n - 1) < share * len(ends)


def test_runs_without_an_answer_use_units_and_are_never_decided():
    found = of(
        (Status.GO, 100), (Status.NO_GO, 50), (Status.INCONCLUSIVE, 300), (Status.INVALID, 9)
    )

    assert found.decided_at() == [50, 100]
    assert found.decided_at(Status.GO) == [100]
    assert found.decided_at(Status.INVALID) == []
    assert (found.n_for(0.5), found.n_for(0.8)) == (100, None)
    assert found.expected_n == pytest.approx(459 / 4)


def test_what_held_runs_back_is_counted_most_often_first():
    found = of(
        (Status.INCONCLUSIVE, 9, ("tail",)),
        (Status.NO_GO, 9, ("tail", "errors")),
        (Status.GO, 9),
    )

    assert list(found.held_by.items()) == [("tail", 2), ("errors", 1)]


def test_the_document_says_how_soon_and_is_json():
    document = of((Status.GO, 100), (Status.GO, 200), (Status.INCONCLUSIVE, 300)).to_json()

    assert json.loads(json.dumps(document)) == document
    assert (document["unit"], document["expected_n"]) == ("request", 200)
    assert (document["median_n"], document["n_80"]) == (200, None)
    assert list(document["chances"]) == ["INVALID", "NO_GO", "INCONCLUSIVE", "GO"]


def test_no_runs_have_no_chance():
    with pytest.raises(ConfigError, match="runs must be at least 1"):
        Chance.of(0, 0)
