"""What the soak's rule says about made-up servers, and how often it errs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from pipelines.soak.rule import MB, Rule, Series, judge, slope_mb_per_hour, step_mb

SECONDS = 600
RULE = Rule()
RUNS = 200
T = np.arange(0.0, SECONDS, 1.0)


def series(uss_mb, *, t=T, tokens=None, planned_s=SECONDS):
    tokens = list(10.0 * np.asarray(t)) if tokens is None else tokens
    return Series(list(t), list(np.asarray(uss_mb) * MB), tokens, planned_s, 1.0)


def leak(mb_per_hour):
    return mb_per_hour * T / 3600


def noise(rng, *, sd=3.0, memory_s=10.0):
    """Ripple of an allocator in MB: autoregressive, so that neighbouring seconds are alike."""
    keep = np.exp(-1 / memory_s)
    shocks = rng.normal(0, sd * np.sqrt(1 - keep**2), len(T))
    return lfilter([1.0], [1.0, -keep], shocks, zi=[keep * rng.normal(0, sd)])[0]


def sawtooth(rng, *, height=40.0, period_s=45.0):
    """Grows and falls back, as buffers that are freed together do."""
    return height * ((T / period_s + rng.random()) % 1)


def warm_up():
    """Caches that fill in the first minute."""
    return 200 * (1 - np.exp(-T / 15))


def verdicts(uss_mb, rule=RULE):
    return {check.name: check.passed for check in judge(rule, series(uss_mb))}


def flat(uss_mb, rule=RULE):
    return all(verdicts(uss_mb, rule).values())


def share_flat(make, runs=RUNS):
    return np.mean([flat(make(np.random.default_rng(seed))) for seed in range(runs)])


def test_a_straight_line_is_measured_exactly():
    found = slope_mb_per_hour(series(500 + leak(120)))

    assert found == pytest.approx((120, 120, 120), rel=1e-3)
    assert step_mb(series(500 + leak(120))) == pytest.approx(120 * 300 / 3600, rel=0.01)


def test_what_happens_in_the_warm_up_says_nothing():
    assert flat(500 + warm_up())
    rise = np.where(T < 0.2 * SECONDS, 0, 300)
    assert flat(500 + rise)


@pytest.mark.parametrize("at", [0.4, 0.5, 0.7])
def test_growth_in_one_go_is_seen(at):
    step = np.where(at * SECONDS > T, 0.0, 40.0)
    assert not flat(500 + step)


def test_a_small_step_is_allowed_and_a_large_one_is_not():
    def late(mb):  # in the last fifth, where a slope hardly sees it
        return verdicts(500 + np.where(T > 0.82 * SECONDS, mb, 0.0), Rule(1e6, 16))

    assert late(15.0)["step"]
    assert not late(17.0)["step"]


def test_a_peak_that_goes_away_is_no_growth():
    assert flat(500 + np.where((T > 400) & (T < 415), 300.0, 0.0))


def test_memory_that_shrinks_is_flat():
    assert flat(900 - leak(300))


@pytest.mark.parametrize(
    "lost",
    [
        T < 0,
        T < 60,
        T < 500,
        T < 575,
        (T < 300) | (T > 345),
        T % 3 == 0,
    ],
    ids=["nothing", "a minute", "most", "all but the end", "a gap", "every third"],
)
def test_too_little_to_judge_is_no_success(lost):
    kept = T[lost]
    checks = judge(RULE, series(np.full(len(kept), 500.0), t=kept))

    assert [check.name for check in checks] == ["samples"]
    assert not checks[0].passed


def test_samples_that_a_busy_machine_missed_are_made_do_without():
    kept = T[np.random.default_rng(0).random(len(T)) < 0.8]
    assert all(c.passed for c in judge(RULE, series(np.full(len(kept), 500.0), t=kept)))


@pytest.mark.parametrize("tokens", [0.0, None])
def test_a_server_that_does_nothing_is_not_called_flat(tokens):
    told = [10.0 * t if t < 400 else tokens or 4000.0 for t in T]
    if tokens is None:
        told = [10.0 * t if t < 400 else None for t in T]
    checks = {c.name: c.passed for c in judge(RULE, series(np.full(len(T), 500.0), tokens=told))}

    assert checks["progress"] is False
    assert checks["slope"] is True


RIPPLES = {
    "none": lambda rng: np.zeros(len(T)),
    "3 MB, lasting 1 s": lambda rng: noise(rng, memory_s=1),
    "3 MB, lasting 10 s": noise,
    "3 MB, lasting 40 s": lambda rng: noise(rng, memory_s=40),
    "10 MB, lasting 10 s": lambda rng: noise(rng, sd=10),
    "saw teeth of 40 MB, 45 s": sawtooth,
    "saw teeth of 40 MB, 150 s": lambda rng: sawtooth(rng, period_s=150),
}
MB_PER_HOUR = (0, 30, 60, 120)
PAGE = Path(__file__).parents[2] / "docs/soak.md"


@pytest.fixture(scope="module")
def rates():
    """Share of runs that pass, by ripple and leak; 200 runs each."""
    return {
        name: [share_flat(lambda rng, r=ripple, g=rate: 500 + warm_up() + leak(g) + r(rng))
               for rate in MB_PER_HOUR]
        for name, ripple in RIPPLES.items()
    }  # fmt: skip


def test_a_leak_of_twice_the_allowance_never_passes(rates):
    assert all(passed[3] <= 0.01 for passed in rates.values())


def test_a_leak_of_the_allowance_passes_about_as_often_as_the_interval_says(rates):
    """2.5 % where samples are independent; ripples as long as a block cost some of it."""
    assert all(passed[2] <= 0.04 for name, passed in rates.items() if "lasting 40 s" not in name)
    assert rates["3 MB, lasting 40 s"][2] <= 0.12


def test_a_flat_server_with_small_ripples_mostly_passes(rates):
    assert rates["none"][0] == rates["3 MB, lasting 1 s"][0] == 1
    assert rates["3 MB, lasting 10 s"][0] >= 0.9
    assert rates["saw teeth of 40 MB, 45 s"][0] >= 0.9


def test_what_is_too_restless_to_judge_does_not_pass():
    def restless(rng):
        return noise(rng, sd=100, memory_s=40)

    assert share_flat(lambda rng: 500 + restless(rng)) <= 0.15
    assert share_flat(lambda rng: 500 + leak(120) + restless(rng)) <= 0.15


def test_the_page_shows_these_rates(rates):
    page = PAGE.read_text("utf-8")
    for name, passed in rates.items():
        row = " | ".join(f"{share:.0%}" for share in passed)
        assert f"| {name} | {row} |" in page, f"| {name} | {row} |"
