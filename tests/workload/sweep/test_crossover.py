"""Where an arm stops to pay: as measured, as an estimate, and when it is not that simple."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.workload.sweep.crossover import LOSES, PAYS, UNDECIDED, crossover
from specdecode.workload.sweep.paired import throughput
from tests.workload.sweep.simulated import cell, cells_of, grid_of, true_speed

LOADS = (1, 4, 16, 64)
SURE = {PAYS: (1.5, 1.51, 1.49), LOSES: (0.7, 0.71, 0.69), UNDECIDED: (0.8, 1.0, 1.25)}


def ratio(values):
    plain = [cell("plain", r, 1, 100.0) for r, _ in enumerate(values, 1)]
    return throughput([cell("k", r, 1, 100.0 * v) for r, v in enumerate(values, 1)], plain)


def found_for(*states):
    measured = zip(LOADS, states, strict=False)
    return crossover({load: ratio(SURE.get(state, ())) for load, state in measured}, 0.95)


def test_it_names_measured_loads_only():
    found = found_for(PAYS, PAYS, UNDECIDED, LOSES)

    assert (found["pays_up_to"], found["does_not_pay_from"]) == (4, 64)
    assert found["undecided"] == [16]
    assert found["monotone"]


def test_it_may_pay_everywhere_or_nowhere():
    assert found_for(PAYS, PAYS)["pays_up_to"] == 4
    assert found_for(PAYS, PAYS)["does_not_pay_from"] is None
    assert found_for(LOSES, LOSES)["does_not_pay_from"] == 1
    assert found_for(LOSES, LOSES)["pays_up_to"] is None


def test_paying_again_at_a_higher_load_is_said_and_not_smoothed_over():
    found = found_for(PAYS, LOSES, PAYS, LOSES)

    assert not found["monotone"]
    assert (found["pays_up_to"], found["does_not_pay_from"]) == (1, 64)
    assert found["estimate"] is None
    assert list(found["states"].values()) == [PAYS, LOSES, PAYS, LOSES]


def test_what_was_not_measured_is_neither():
    found = found_for(PAYS, "missing", LOSES)

    assert (found["not_measured"], found["undecided"]) == ([4], [])
    assert (found["pays_up_to"], found["does_not_pay_from"]) == (1, 16)


def test_one_round_decides_nothing():
    found = crossover({1: ratio([2.0]), 4: ratio([0.5])}, 0.95)

    assert found["undecided"] == [1, 4]
    assert found["estimate"]["concurrency"] == pytest.approx(2)  # log 2 and -log 2: in the middle
    assert (found["estimate"]["low"], found["estimate"]["high"]) == (None, None)


@given(st.lists(st.sampled_from([PAYS, LOSES, UNDECIDED, "missing"]), min_size=1, max_size=4))
def test_both_ends_agree_with_the_states(states):
    found = found_for(*states)
    told = {int(load): state for load, state in found["states"].items()}
    if (up_to := found["pays_up_to"]) is not None:
        assert all(state == PAYS for load, state in told.items() if load <= up_to)
    if (since := found["does_not_pay_from"]) is not None:
        assert all(state == LOSES for load, state in told.items() if load >= since)
        assert up_to is None or up_to < since


def test_the_true_crossover_of_a_known_server_lies_between_the_loads_that_are_named():
    loads = (1, 2, 4, 8, 16, 32)
    truth = [load for load in loads if true_speed(4, load) > true_speed(0, load)]
    speeds = {(f"k{k}", load): true_speed(k, load) for k in (0, 4) for load in loads}
    cells = grid_of(cells_of(speeds, rounds=5, noise=0.01, drift=0.3, seed=3))
    found = crossover(
        {load: throughput(cells["k4", load], cells["k0", load]) for load in loads}, 0.95
    )

    assert found["monotone"]
    assert found["pays_up_to"] == max(truth)
    assert found["does_not_pay_from"] == min(set(loads) - set(truth))
    estimate = found["estimate"]
    assert estimate["between"] == [found["pays_up_to"], found["does_not_pay_from"]]
    assert estimate["low"] < estimate["concurrency"] < estimate["high"]


def test_a_round_is_left_out_of_both_loads_and_of_no_other_round():
    def measured(load, logs):
        plain = [cell("plain", r, load, 100.0) for r in logs]
        return throughput([cell("k", r, load, 100.0 * math.exp(v)) for r, v in logs.items()], plain)

    ratios = {1: measured(1, {1: 0.4, 2: 0.6}), 4: measured(4, {3: -0.4, 4: -0.6})}
    estimate = crossover(ratios, 0.95)["estimate"]

    # Logarithm of the load over log 4, without rounds 1, 2, 3 and 4.
    without = [0.6 / 1.1, 0.4 / 0.9, 0.5 / 1.1, 0.5 / 0.9]
    error = math.sqrt(3 / 4 * sum((each - sum(without) / 4) ** 2 for each in without))
    reach = 3.182446 * error  # Student's t with 3 degrees of freedom, 97.5 %
    assert estimate["concurrency"] == pytest.approx(2)
    assert estimate["low"] == pytest.approx(4 ** (0.5 - reach))
    assert estimate["high"] == pytest.approx(4 ** (0.5 + reach))
