"""Who is measured when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specdecode.workload.sweep.order import turns


@given(st.integers(1, 8), st.integers(1, 20), st.integers(0, 99))
def test_everybody_has_a_turn_and_nobody_the_same_place_before_all_were_there(items, rounds, seed):
    names = [f"arm{n}" for n in range(items)]
    orders = turns(names, rounds, seed)

    assert orders == turns(names, rounds, seed)
    assert all(sorted(order) == sorted(names) for order in orders)
    for place in range(items):
        there = [order[place] for order in orders[:items]]
        assert len(set(there)) == len(there)


def test_the_seed_decides():
    assert len({str(turns(list(range(6)), 3, seed)) for seed in range(20)}) > 10
