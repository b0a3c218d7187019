"""Which length at which load: the rule, and how often it errs in sweeps whose truth is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.workload.sweep import SweepSpec, analyse
from specdecode.workload.sweep.recommend import recommend, schedule
from tests.workload.sweep.simulated import (
    PLAIN,
    cell,
    cells_of,
    drafting,
    grid_of,
    true_speed,
)


def lengths(speeds, arms, rounds=4, **more):
    more = {"noise": 0.001, **more}
    found = recommend(PLAIN, arms, grid_of(cells_of(speeds, rounds, **more)), 0.95)
    return found.lengths


def speeds_at(load, **by_arm):
    return {(name, load): speed for name, speed in by_arm.items()}


def test_the_fastest_is_taken():
    arms = [drafting(2), drafting(4), drafting(8)]
    assert lengths(speeds_at(1, plain=100, k2=130, k4=160, k8=150), arms) == {1: 4}


def test_nothing_faster_than_plain_decoding_leaves_plain_decoding():
    assert lengths(speeds_at(1, plain=100, k2=90, k4=70), [drafting(2), drafting(4)]) == {1: 0}


def test_a_tie_goes_to_the_shorter_length():
    arms = [drafting(8), drafting(2)]  # whatever their order
    assert lengths(speeds_at(1, plain=100, k2=130, k8=130), arms, noise=0.01) == {1: 2}


def test_one_round_recommends_nothing():
    assert lengths(speeds_at(1, plain=100, k2=500), [drafting(2)], rounds=1) == {1: 0}


def test_what_was_not_measured_is_not_recommended():
    speeds = {**speeds_at(1, plain=100, k2=150), **speeds_at(4, plain=100)}
    assert lengths(speeds, [drafting(2), drafting(4)]) == {1: 2, 4: 0}


def test_cells_with_errors_do_not_count():
    cells = cells_of(speeds_at(1, plain=100), 4, noise=0.001)
    cells += [cell("k2", number, 1, 300.0, whole=False) for number in range(1, 5)]
    assert recommend(PLAIN, [drafting(2)], grid_of(cells), 0.95).lengths == {1: 0}


def test_another_rule_is_taken_only_if_it_is_faster():
    token, block = drafting(4, "token", "t"), drafting(4, "block", "b")
    same = grid_of(cells_of(speeds_at(1, plain=100, t=150, b=150), 4, noise=0.01))
    better = grid_of(cells_of(speeds_at(1, plain=100, t=150, b=180), 4, noise=0.01))

    assert recommend(PLAIN, [token, block], same, 0.95).rule == "token"
    assert recommend(PLAIN, [block, token], same, 0.95).rule == "block"
    assert recommend(PLAIN, [token, block], better, 0.95).rule == "block"


def test_a_known_server_gets_its_best_lengths():
    loads, known = (1, 2, 8, 32), (0, 1, 3, 7)
    speeds = {
        (f"k{k}" if k else "plain", load): true_speed(k, load) for k in known for load in loads
    }
    best = {load: max(known, key=lambda k: (true_speed(k, load), -k)) for load in loads}

    assert lengths(speeds, [drafting(k) for k in known[1:]], rounds=5) == best
    assert best[1] == 7
    assert best[32] == 0


@pytest.mark.parametrize(("rounds", "arms"), [(2, 3), (3, 6), (5, 3), (8, 6)])
def test_useless_arms_are_recommended_no_more_often_than_stated(rounds, arms):
    """All arms as fast as plain decoding: anything but plain is an error."""
    trials, wrong = 1000, 0
    rivals = [drafting(k) for k in range(1, arms + 1)]
    speeds = speeds_at(1, plain=100.0, **{arm.name: 100.0 for arm in rivals})
    for seed in range(trials):
        found = lengths(speeds, rivals, rounds, noise=0.02, drift=0.1, seed=seed)
        wrong += found != {1: 0}
    stated = 0.025
    assert wrong / trials <= stated + 3 * math.sqrt(stated * (1 - stated) / trials)


@pytest.mark.parametrize(("rounds", "at_least"), [(3, 0.4), (5, 0.9)])
def test_the_best_arm_is_found_as_often_as_documented(rounds, at_least):
    """Gains of 15, 30 and 20 % at 2 % of noise: docs/sweep.md gives the shares."""
    trials = 400
    arms = [drafting(2), drafting(4), drafting(8)]
    speeds = speeds_at(1, plain=100.0, k2=115.0, k4=130.0, k8=120.0)
    found = [
        lengths(speeds, arms, rounds, noise=0.02, drift=0.1, seed=seed)[1] for seed in range(trials)
    ]
    assert found.count(4) / trials >= at_least
    # A longer arm that is worse than the best never takes its place by more than luck.
    assert found.count(8) / trials <= 0.05


@given(
    st.dictionaries(st.integers(1, 200), st.integers(0, 16), min_size=1, max_size=6),
    st.integers(0, 300),
)
def test_a_schedule_has_no_gaps_and_keeps_what_was_measured(by_load, more):
    most = max(by_load) + more
    parts = schedule(by_load, most)

    assert parts[0][0] == 1
    assert parts[-1][1] == most
    assert all(a[1] + 1 == b[0] and a[2] != b[2] for a, b in itertools.pairwise(parts))
    for load, length in by_load.items():
        assert [k for first, last, k in parts if first <= load <= last] == [length]


def test_between_two_loads_the_shorter_length_is_used_and_above_the_last_one_none():
    assert schedule({1: 8, 4: 2, 16: 4}, 64) == [
        [1, 1, 8],
        [2, 15, 2],
        [16, 16, 4],
        [17, 64, 0],
    ]


def test_every_baseline_gets_a_recommendation_of_its_own():
    others = [replace(PLAIN, name="other"), replace(drafting(2), name="o2", baseline="other")]
    speeds = speeds_at(1, plain=100, k2=150, other=400, o2=300)
    spec = SweepSpec(concurrency=(1,), rounds=4, input_tokens=4)
    found = analyse(spec, [PLAIN, drafting(2), *others], cells_of(speeds, 4, noise=0.001))

    assert [(r.baseline, r.lengths) for r in found.recommendations] == [
        ("plain", {1: 2}),
        ("other", {1: 0}),
    ]


def test_plain_decoding_is_not_recommended_over_what_was_never_measured():
    spec = SweepSpec(concurrency=(1,), rounds=4, input_tokens=4)
    cells = cells_of(speeds_at(1, plain=100), 4)
    cells += [cell("k2", number, 1, 300.0, whole=False) for number in range(1, 5)]

    assert analyse(spec, [PLAIN, drafting(2)], cells).recommendations == []
