"""Betting on differences of scores: valid at every size, in an order that anyone can redraw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.statistics.betting_interval import difference_interval, drawn_order, mean_limits

scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])
pairs = st.lists(st.tuples(scores, scores), min_size=2, max_size=40)


def interval(rows, **options):
    return difference_interval(*map(list, zip(*rows, strict=True)), **{"seed": 1} | options)


def test_the_order_is_that_of_splitmix64():
    """The first numbers of the generator seeded with 1234567, as its authors' code prints them."""
    numbers = [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
        4593380528125082431, 16408922859458223821,
    ]  # fmt: skip

    assert drawn_order(5, 1234567).tolist() == sorted(range(5), key=numbers.__getitem__)


@given(st.integers(0, 300), st.integers(0, 2**64))
def test_the_order_is_one_of_all_places(n, seed):
    assert sorted(drawn_order(n, seed).tolist()) == list(range(n))


def test_the_order_looks_drawn():
    """Each place is first about as often as any other: chi-square of 2000 seeds, 10 places."""
    first = np.bincount([drawn_order(10, seed)[0] for seed in range(2000)], minlength=10)

    assert ((first - 200) ** 2 / 200).sum() < 33.7  # 1e-4 with 9 degrees of freedom


def test_every_look_at_every_mean_by_hand():
    """Two values: the ends are where the larger of two products is 2/alpha."""
    values, level = np.array([1.0, 1.0]), 0.5
    needed = 4.0
    first = math.sqrt(2 * math.log(needed) / (2 * 0.25))
    # After a 1: mu = 3/4, so s2 = (1/4 + 1/16)/2.
    second = math.sqrt(2 * math.log(needed) / (2 * (0.25 + 0.0625) / 2))

    def wealth(m):
        one, two = (1 + min(bet, 0.75 / m) * (1 - m) for bet in (first, second))
        return max(one, one * two)

    low, high = mean_limits(values, level)

    assert wealth(low) == pytest.approx(needed, rel=1e-6)
    assert wealth(low + 1e-4) < needed
    assert high == 1.0


@given(pairs)
def test_exchanging_the_arms_turns_the_interval_round(rows):
    forward, backward = interval(rows), interval([(b, a) for a, b in rows])

    assert backward.estimate == pytest.approx(-forward.estimate)
    assert (backward.low, backward.high) == pytest.approx((-forward.high, -forward.low), abs=1e-9)


@given(pairs)
def test_it_stays_inside_the_scale_and_never_narrows_with_the_level(rows):
    wide, narrow = interval(rows, level=0.99), interval(rows, level=0.8)

    assert -1 <= wide.low <= narrow.low <= narrow.high or narrow.low > narrow.high
    assert narrow.high <= wide.high <= 1
    assert (wide.n, wide.method) == (len(rows), "betting")


def test_settings_of_one_prompt_are_one_value():
    rows = [(1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (0.5, 1.0)]
    once = interval(rows, clusters=["a", "b", "c", "d"])

    assert interval(rows * 2, clusters=["a", "b", "c", "d"] * 2) == once
    assert interval(rows, clusters=["a", "a", "b", "b"]).n == 2
    assert interval(rows, clusters=["a"] * 4) is None


def test_more_prompts_narrow_it_to_the_truth():
    rng = np.random.default_rng(3)
    widths = []
    for n in (50, 500, 20_000):
        one, other = ((rng.random(n) < p).astype(float) for p in (0.6, 0.5))
        found = difference_interval(one, other, seed=0)
        assert found.low < 0.1 < found.high
        widths.append(found.high - found.low)

    assert widths[0] > 2.5 * widths[1] > 10 * widths[2]


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_values_off_the_scale_are_refused(bad):
    with pytest.raises(ConfigError):
        difference_interval([0.0, bad], [0.0, 1.0], seed=0)
    with pytest.raises(ConfigError, match="level"):
        difference_interval([0.0, 1.0], [0.0, 1.0], level=0.0, seed=0)


@pytest.mark.parametrize("differ", [0.12, 0.2])
@pytest.mark.parametrize("n", [10, 30, 90])
def test_a_loss_of_the_margin_is_shown_to_be_none_no_more_often_than_promised(n, differ):
    """4 000 runs at the border of a margin of 0.1, where a bootstrap errs in 3.3 % of them."""
    runs, margin = 4000, 0.1
    rng = np.random.default_rng(n)
    lost, gained = (differ + margin) / 2, (differ - margin) / 2
    wrong = 0
    for run in range(runs):
        drawn = rng.random((2, n))  # two settings
        change = np.where(drawn < lost, -1.0, np.where(drawn < lost + gained, 1.0, 0.0))
        base = np.where(change < 0, 1.0, np.where(change > 0, 0.0, 0.5)).T.ravel()
        found = difference_interval(
            base + change.T.ravel(), base, clusters=np.repeat(np.arange(n), 2), seed=run
        )
        wrong += found.low >= -margin
    assert wrong <= runs * 0.025 + 5 * math.sqrt(runs * 0.025)
