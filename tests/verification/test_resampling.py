"""Sums in a fixed order and the inverse CDF."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specdecode.verification.resampling import (
    fixed_order_sum,
    inverse_cdf,
    last_accepted,
    leading_run,
    order_free_sum,
)
from tests.strategies import uniforms

BELOW_ONE = math.nextafter(1, 0)
weights = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-12, 1), st.sampled_from((1e-300, 0.25))),
    min_size=1,
    max_size=200,
).filter(any)


def pick(values, u):
    return inverse_cdf(
        torch.tensor([values], dtype=torch.float64), torch.tensor([u], dtype=torch.float64)
    ).item()


@settings(max_examples=300, deadline=None)
@given(values=weights, u=uniforms)
@example(values=[0.0] * 70 + [1e-300] + [0.0] * 70, u=0.0)
@example(values=[0.0] * 70 + [1e-300] + [0.0] * 70, u=BELOW_ONE)
def test_inverse_cdf_never_picks_weight_zero_nor_leaves_the_vocabulary(values, u):
    token = pick(values, u)

    assert 0 <= token < len(values)
    assert values[token] > 0


@settings(max_examples=300, deadline=None)
@given(values=weights, u=uniforms)
def test_inverse_cdf_picks_the_token_whose_cell_holds_the_coin(values, u):
    token = pick(values, u)
    total = math.fsum(values)

    assert math.fsum(values[:token]) <= u * total + 1e-12 * total
    assert u * total < math.fsum(values[: token + 1]) + 1e-12 * total


@pytest.mark.parametrize(
    ("u", "token"), [(0.0, 1), (0.2499, 1), (0.25, 2), (0.74, 2), (0.75, 4), (BELOW_ONE, 4)]
)
def test_inverse_cdf_goes_by_token_id_and_borders_belong_to_the_next_token(u, token):
    assert pick([0.0, 0.25, 0.5, 0.0, 0.25, 0.0], u) == token


def test_inverse_cdf_does_not_need_normalised_weights():
    assert [pick([1e-9, 3e-9], u) for u in (0.2, 0.3)] == [0, 1]


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_fixed_order_sum_is_the_sum(values):
    found = fixed_order_sum(torch.tensor([values], dtype=torch.float64)).item()

    assert found == pytest.approx(math.fsum(values), rel=1e-14, abs=1e-300)


def test_fixed_order_sum_leaves_its_argument_alone():
    values = torch.arange(7, dtype=torch.float64)[None]

    assert fixed_order_sum(values).item() == 21
    assert values.tolist() == [[0, 1, 2, 3, 4, 5, 6]]


@settings(max_examples=200, deadline=None)
@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=300), shuffle=st.randoms())
def test_order_free_sum_is_the_sum_in_any_order(values, shuffle):
    found = order_free_sum(torch.tensor([values], dtype=torch.float64)).item()
    shuffle.shuffle(values)

    assert order_free_sum(torch.tensor([values], dtype=torch.float64)).item() == found
    assert found == pytest.approx(math.fsum(values), rel=len(values) ** 2 * 2**-52, abs=1e-300)


def test_order_free_sum_with_a_known_bound_is_exact_to_its_last_place():
    values = torch.full((1, 1000), 1e-3, dtype=torch.float64)

    assert abs(order_free_sum(values, most=1.0).item() - 1) <= 1000 * 2**-53


def test_a_heavy_token_does_not_swallow_the_light_ones():
    values = [1.0, *[1e-12] * 99_999]

    assert pick(values, BELOW_ONE) == 99_999
    assert pick(values, 1 - 0.5e-7) in range(49_000, 51_000)


def test_counting_accepted_positions():
    accepted = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]]).bool()

    assert leading_run(accepted).tolist() == [2, 0, 4, 0]
    assert last_accepted(accepted).tolist() == [4, 0, 4, 2]
