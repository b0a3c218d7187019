"""How often a decision is wrong, looking after every unit: never more often than the plan says.

The truth lies exactly on the margin, where an error is likeliest. Counts are held against the
binomial law of the promised level; each simulation is seeded.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from specdecode.governance import Outcome, Status
from specdecode.governance.live.findings import Stream, of_detector, of_one, of_two
from specdecode.governance.live.margins import Scale
from tests.governance.live.streams import (
    CANARY,
    ERRORS,
    LATENCY,
    SHADOW,
    canary,
    entry,
    judged,
    live_plan,
    shadow,
)

RUNS = 300
RATE = Scale(0.0, 1.0, 0.9, higher=True)
DIFFERENCE = Scale(-1.0, 1.0, -0.1, higher=True)
METHODS = ("betting", "empirical-bernstein", "beta-binomial")


def no_more_often_than(promised, wrong, runs=RUNS):
    """Whether so many errors, or more, are not too unlikely under the promised level."""
    return binom.sf(wrong - 1, runs, promised) > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_on_its_margin_is_called_good_or_bad_no_more_often_than_alpha(method):
    rng = np.random.default_rng(1)
    good = bad = 0
    for _ in range(RUNS):
        found = of_one(method, (rng.random(300) < 0.9).astype(float), RATE, 0.1, 1)
        good += found.good_at is not None
        bad += found.bad_at is not None

    assert no_more_often_than(0.1, good)
    assert no_more_often_than(0.1, bad)
    assert good + bad > 0  # errors do happen: the promise is not kept by saying nothing


@pytest.mark.parametrize("method", METHODS)
def test_two_arms_on_the_margin_are_decided_no_more_often_than_alpha(method):
    rng = np.random.default_rng(2)
    good = bad = 0
    for _ in range(60):
        a, b = ((rng.random(200) < p).astype(float) for p in (0.6, 0.7))
        times = np.sort(rng.integers(0, 10_000, (2, 200)), axis=1)
        found = of_two(
            method, Stream(a, times[0]), Stream(b, times[1]), (0.0, 1.0), DIFFERENCE, 0.2, 1
        )
        good += found.good_at is not None
        bad += found.bad_at is not None

    assert no_more_often_than(0.2, good, 60)
    assert no_more_often_than(0.2, bad, 60)


def test_false_alarms_of_a_detector_come_no_sooner_than_promised():
    rng = np.random.default_rng(3)
    lengths = []
    for _ in range(150):
        found = of_detector((rng.random(2000) < 0.9).astype(float), RATE, 200.0, 1)
        lengths.append(found.bad_at or 2000)

    assert np.mean(lengths) > 200


def coin(rate):
    """Failures at the margin of the error rate, everything else in order."""
    return lambda rng, _: {"e2e_s": 0.5, **({"error": "x"} if rng.random() < rate else {})}


def test_same_arms_are_stopped_no_more_often_than_their_alarms_may():
    plan = live_plan(SHADOW | {"metrics": ["error_rate"], "alarm_alpha": 0.2},
                     missing_data={"max_missing_share": 0.4})  # fmt: skip
    verdicts = [
        judged(plan, "shadow", shadow(150, coin(0.05), coin(0.05), seed)) for seed in range(60)
    ]

    assert {v.status for v in verdicts} <= {Status.GO, Status.NO_GO}
    assert no_more_often_than(0.2, sum(v.status is Status.NO_GO for v in verdicts), 60)


def test_same_arms_get_their_shares_and_are_seldom_called_invalid():
    plan = live_plan(CANARY | {"metrics": ["error_rate", "e2e_s"], "alarm_alpha": 0.2},
                     metrics=[ERRORS, LATENCY])  # fmt: skip
    verdicts = [judged(plan, "canary", canary(200, share=0.2, seed=seed)) for seed in range(60)]
    invalid = sum(entry(v, "integrity/sample_ratio").outcome is Outcome.INVALID for v in verdicts)

    assert no_more_often_than(0.1, invalid, 60)
