from __future__ import annotations

import numpy as np
import pytest

from specdecode.measurement.intervals import (
    difference_interval,
    metric_interval,
    quantile_ratio_interval,
    ratio_interval,
)
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.pairing import pair
from tests.measurement.factories import record, run, shuffled

SPEED = METRICS["output_tokens_per_s"]


def _two_prompts():
    # Plain: 5 tokens in 1 s and 10 in 2 s; block: 5 tokens in 0.5 s and 20 in 2 s.
    # Pooled 15/3 = 5 against 25/2.5 = 10 tokens per second: ratio 2.
    ten, twenty = [1] * 10, [1] * 20
    return [
        record("a", e2e_s=1.0),
        record("b", output_tokens=10, output_token_ids=ten, e2e_s=2.0),
        record("a", arm="block", e2e_s=0.5),
        record("b", arm="block", output_tokens=20, output_token_ids=twenty, e2e_s=2.0),
    ]


def test_speed_ratio_is_pooled_throughput_over_pooled_throughput():
    interval = ratio_interval(SPEED, pair(_two_prompts(), "block", "plain"), level=0.95)

    assert interval.estimate == pytest.approx(2.0)
    assert (interval.n, interval.level) == (2, 0.95)
    # Prompt a alone gives 10/5, prompt b alone 10/5: every resample says 2.
    assert (interval.low, interval.high) == pytest.approx((2.0, 2.0))


def test_replies_of_different_length_do_not_distort_the_ratio():
    rows = [r for r in _two_prompts() if r.prompt_id == "b"]
    rows += [
        record("c", e2e_s=1.0),
        record("c", arm="block", e2e_s=1.0, output_tokens=1, output_token_ids=[1], tpot_s=None),
    ]
    interval = ratio_interval(SPEED, pair(rows, "block", "plain"), level=0.95)

    assert interval.estimate == pytest.approx((21 / 3.0) / (15 / 3.0))


def test_one_prompt_gives_no_interval_even_with_two_settings():
    rows = [record("a", arm, sampling) for arm in ("plain", "block") for sampling in
            ("greedy", "sampled")]  # fmt: skip
    pairing = pair(rows, "block", "plain")

    assert len(pairing.pairs) == 2
    assert ratio_interval(SPEED, pairing, level=0.95) is None
    assert difference_interval(METRICS["quality"], pairing, level=0.95, seed=1) is None
    assert quantile_ratio_interval(METRICS["tpot_s"], pairing, 0.95, level=0.95, seed=1) is None
    assert metric_interval(SPEED, rows, level=0.95) is None


def test_settings_of_one_prompt_are_resampled_together():
    """Doubling the rows of each prompt must not make the interval narrower."""
    rows = [r for r in run(40) if r.sampling_name == "greedy"]
    copies = [
        r.model_copy(update={"sampling": r.sampling | {"name": "again"}, "request_id": "x"})
        for r in rows
    ]
    once = ratio_interval(SPEED, pair(rows, "block", "plain"), level=0.95)
    twice = ratio_interval(SPEED, pair([*rows, *copies], "block", "plain"), level=0.95)

    assert (once.low, once.high, once.n) == pytest.approx((twice.low, twice.high, twice.n))


def test_row_order_does_not_matter_and_the_seed_does_where_something_is_drawn():
    rows = run(30)

    def speed(records):
        return ratio_interval(SPEED, pair(records, "block", "plain"), level=0.9)

    def length(records):
        metric = METRICS["mean_acceptance_length"]
        return metric_interval(metric, [r for r in records if r.arm == "block"], level=0.9)

    def tail(records, seed):
        pairing = pair(records, "block", "plain")
        return quantile_ratio_interval(METRICS["e2e_s"], pairing, 0.95, level=0.9, seed=seed)

    def score(records, seed):
        pairing = pair(records, "block", "plain")
        return difference_interval(METRICS["quality"], pairing, level=0.9, seed=seed)

    mixed = shuffled(rows, 1)
    assert speed(rows) == speed(mixed)
    assert length(rows) == length(mixed)
    assert tail(rows, 3) == tail(mixed, 3) != tail(rows, 4)
    assert score(rows, 3) == score(mixed, 3)


def test_tail_ratio_compares_the_same_quantile():
    rows = [record(f"p{i}", ttft_s=0.01 * i, e2e_s=9.0) for i in range(1, 102)]
    rows += [record(f"p{i}", "block", ttft_s=0.03 * i, e2e_s=9.0) for i in range(1, 102)]
    pairing = pair(rows, "block", "plain")
    interval = quantile_ratio_interval(METRICS["ttft_s"], pairing, 0.95, level=0.95, seed=1)

    assert interval.estimate == pytest.approx(3.0)
    assert interval.low == pytest.approx(3.0)


@pytest.mark.parametrize("gap", ["row", "error", "metric"])
def test_a_prompt_missing_in_one_arm_is_not_compared(gap):
    rows = [*_two_prompts(), record("c", e2e_s=100.0)]
    if gap == "error":
        rows.append(record("c", arm="block", e2e_s=100.0, error="NaN logits"))
    if gap == "metric":
        rows.append(record("c", arm="block", e2e_s=None))
    pairing = pair(rows, "block", "plain")

    interval = ratio_interval(SPEED, pairing, level=0.95)

    assert (interval.estimate, interval.n) == (pytest.approx(2.0), 2)
    assert pairing.unpaired == ((("c", "greedy"),) if gap != "metric" else ())


def test_a_baseline_of_zero_gives_no_ratio():
    rows = [
        record(p, arm, steps=5, accepted=0, drafted=4) for p in "ab" for arm in ("plain", "block")
    ]

    pairing = pair(rows, "block", "plain")

    assert ratio_interval(METRICS["acceptance_rate"], pairing, level=0.95) is None


def test_intervals_cover_the_true_speed_ratio_about_as_often_as_stated():
    """200 simulated runs at 90 %: fewer than 80 % would be 5 standard errors off."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        rows = []
        for i in range(40):
            cost = rng.gamma(20, 0.05)
            tokens = int(rng.integers(5, 30))
            common = {"output_tokens": tokens, "output_token_ids": [1] * tokens}
            noise = rng.lognormal(0, 0.2, size=2)
            rows.append(record(f"p{i}", e2e_s=cost * tokens * noise[0], **common))
            rows.append(record(f"p{i}", "block", e2e_s=cost * tokens * noise[1] / 1.5, **common))
        found = ratio_interval(SPEED, pair(rows, "block", "plain"), level=0.9)
        hits += found.low <= 1.5 <= found.high

    assert hits >= 160
