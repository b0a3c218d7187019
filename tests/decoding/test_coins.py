"""Coins: fixed by their key, independent across purposes, prompts and seeds."""

from __future__ import annotations

import numpy as np
from scipy.stats import kstest

from specdecode.decoding.coins import CoinStream, Purpose


def test_a_draw_is_fixed_by_its_key_not_by_what_was_drawn_before():
    one, other = CoinStream(7, [1, 2]), CoinStream(7, [1, 2])
    other.draw(Purpose.ACCEPT, 3, 50)
    assert np.array_equal(one.draw(Purpose.DRAFT, 5, 4), other.draw(Purpose.DRAFT, 5, 8)[:4])


def test_every_part_of_the_key_matters():
    draws = [
        CoinStream(7, [1, 2]).draw(Purpose.DRAFT, 5, 1)[0],
        CoinStream(8, [1, 2]).draw(Purpose.DRAFT, 5, 1)[0],
        CoinStream(7, [1, 3]).draw(Purpose.DRAFT, 5, 1)[0],
        CoinStream(7, [1, 2]).draw(Purpose.DRAFT, 6, 1)[0],
        CoinStream(7, [1, 2]).draw(Purpose.ACCEPT, 5, 1)[0],
        CoinStream(7, [1, 2]).draw(Purpose.TARGET, 5, 1)[0],
        CoinStream(7, [1, 2]).draw(Purpose.DRAFT, 5, 1, 1)[0],
    ]
    assert len(set(draws)) == len(draws)


def test_streams_are_uniform_and_uncorrelated():
    stream = CoinStream(1, [4])
    by_purpose = np.array([[stream.draw(p, i, 1)[0] for i in range(4000)] for p in Purpose])
    for row in by_purpose:
        assert kstest(row, "uniform").pvalue > 1e-4
    correlation = np.corrcoef(by_purpose) - np.eye(len(Purpose))
    assert np.abs(correlation).max() < 0.07


def test_draws_are_below_one():
    draws = CoinStream(2, [1]).draw(Purpose.ACCEPT, 0, 100_000)
    assert draws.min() >= 0
    assert draws.max() < 1
