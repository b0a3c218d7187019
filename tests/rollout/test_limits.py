"""What the candidate may be given, on a clock of the tests."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.rollout.limits import Breaker, CandidateLimits
from specdecode.rollout.settings import Limits


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


class TestRate:
    @given(st.floats(0.2, 50), st.lists(st.floats(0, 2), min_size=1, max_size=200))
    def test_never_more_than_the_rate_and_a_burst_of_one_second(self, rps, waits):
        clock = Clock()
        limits = CandidateLimits(Limits(rps=rps, concurrency=10**6), clock)
        admitted = 0
        for wait in waits:
            clock.now += wait
            admitted += limits.enter() is None

        assert admitted <= max(1.0, rps) + rps * sum(waits) + 1e-6

    def test_it_fills_again(self, clock):
        limits = CandidateLimits(Limits(rps=2.0), clock)
        first = [limits.enter() for _ in range(3)]
        clock.now += 0.5

        assert first == [None, None, "rate"]
        assert [limits.enter() for _ in range(2)] == [None, "rate"]
        assert limits.refused["rate"] == 2

    def test_no_rate_is_any(self, clock):
        limits = CandidateLimits(Limits(concurrency=1000), clock)

        assert Counter(limits.enter() for _ in range(500)) == {None: 500}


class TestConcurrency:
    def test_so_many_at_once(self, clock):
        limits = CandidateLimits(Limits(concurrency=2), clock)

        assert [limits.enter() for _ in range(3)] == [None, None, "concurrency"]
        limits.leave()
        assert limits.enter() is None
        assert limits.in_flight == 2

    def test_what_others_bound_is_not_counted(self, clock):
        limits = CandidateLimits(Limits(concurrency=1), clock)

        assert [limits.enter(counted=False) for _ in range(5)] == [None] * 5
        assert limits.in_flight == 0

    def test_what_is_refused_costs_no_rate(self, clock):
        limits = CandidateLimits(Limits(rps=2.0, concurrency=1), clock)
        assert [limits.enter() for _ in range(3)] == [None, "concurrency", "concurrency"]
        limits.leave()

        assert limits.enter() is None


class TestBreaker:
    def test_failures_in_a_row_open_it(self, clock):
        breaker = Breaker(3, 30.0, clock)
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
        breaker.failed()
        breaker.failed()
        assert breaker.passes()
        breaker.failed()

        assert not breaker.passes()
        assert (breaker.is_open, breaker.opened) == (True, 1)

    def test_after_the_pause_one_tries_and_the_others_wait_for_it(self, clock):
        breaker = Breaker(1, 30.0, clock)
        breaker.failed()
        clock.now += 31

        assert [breaker.passes() for _ in range(3)] == [True, False, False]
        breaker.succeeded()
        assert [breaker.passes() for _ in range(3)] == [True] * 3

    def test_a_try_that_fails_is_another_pause(self, clock):
        breaker = Breaker(1, 30.0, clock)
        breaker.failed()
        clock.now += 31
        assert breaker.passes()
        breaker.failed()
        clock.now += 29

        assert not breaker.passes()
        assert breaker.opened == 1

    def test_a_try_whose_end_nobody_told_does_not_keep_it_open_for_ever(self, clock):
        breaker = Breaker(1, 30.0, clock)
        breaker.failed()
        clock.now += 31
        assert breaker.passes()
        clock.now += 31

        assert breaker.passes()

    def test_looking_is_no_try(self, clock):
        breaker = Breaker(1, 30.0, clock)
        breaker.failed()
        clock.now += 31

        assert [breaker.would_pass for _ in range(3)] == [True] * 3
        assert breaker.passes()


@pytest.mark.parametrize(
    "wrong",
    [{"rps": 0}, {"rps": float("nan")}, {"concurrency": 0}, {"failures": 0}, {"pause_s": -1}],
    ids=lambda wrong: next(iter(wrong)) + str(next(iter(wrong.values()))),
)
def test_a_limit_that_lets_nothing_through_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)
