"""How often each method is wrong, and how often it finds what is there, by simulation.

Five questions, each asked where the hypothesis just holds (type I error) and where it clearly does
not (power):

* mean: exact-match differences of paired arms, 6 % of prompts lost and 3 % won, against a margin
  of 0.03; power at 3 % lost and 3 % won. `betting_finite` reads 3/4 of a finite set of prompts.
* slo: 95 % of requests in the limit, "more than 95 % are" is to be shown; power at 98 %.
* quantile: exclude the limit from an interval of the p95 latency, on the same requests.
* sample_ratio: two arms, equal shares; power at 55 to 45.
* drift: a rate of 95 % all the time; power when it falls to 80 % halfway. The e-detectors state an
  average run length of looks / ALPHA, which bounds the chance of a false alarm within that many
  looks by ALPHA (Doob); the plain CUSUM takes the textbook k = sd / 2, h = 5 sd,
  which are meant for normal values.

Sequential methods look after every value, `fixed` ones once, at the end. `peeked` ones are those
same fixed tests looked at again and again from the 30th value on (the bootstrap of the mean at
every 30th value only): they show what sequential methods are for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics import beta_binomial, drift, quantiles, sample_ratio
from specdecode.statistics.betting import log_increments
from specdecode.statistics.binomial import proportion_interval
from specdecode.statistics.empirical_bernstein import EmpiricalBernstein
from specdecode.statistics.interval import Interval
from specdecode.statistics.sequential import FloatArray

BoolArray = npt.NDArray[np.bool_]
Found = Iterator[tuple[str, BoolArray]]

ALPHA = 0.05
MARGIN = 0.03
SHARE = 0.95
FIRST_PEEK = 30
RESAMPLES = 1000

_EVIDENCE = math.log(1 / ALPHA)
_M0 = (1 - MARGIN) / 2
_LOST = {"type1": 0.06, "power": 0.03}
_WON = 0.03
_IN_LIMIT = {"type1": SHARE, "power": 0.98}
_FIRST_ARM = {"type1": 0.5, "power": 0.55}
_AFTER_CHANGE = {"type1": SHARE, "power": 0.8}


def method_study(runs: int, looks: int, seed: int) -> dict[str, dict[str, dict[str, float | int]]]:
    """Type I error and power of every method.

    Args:
        runs: simulated runs for each entry, at least 1.
        looks: values per run, at least 60; sequential methods look at each.
        seed: the same seed gives the same numbers.

    Returns:
        Method -> "type1" and "power" -> rate, low, high (95 %, Clopper-Pearson), runs.

    Raises:
        ConfigError: runs or looks is too small.
    """
    if runs < 1:
        raise ConfigError(f"runs must be at least 1, not {runs}")
    if looks < 2 * FIRST_PEEK:
        raise ConfigError(f"looks must be at least {2 * FIRST_PEEK}, not {looks}")
    questions = (_mean, _finite_mean, _slo_and_quantile, _sample_ratio, _drift)
    streams = iter(np.random.default_rng(seed).spawn(2 * len(questions)))
    study: dict[str, dict[str, dict[str, float | int]]] = {}
    for question in questions:
        for case in ("type1", "power"):
            for method, rejected in question(case, runs, looks, next(streams)):
                study.setdefault(method, {})[case] = _summary(rejected)
    return study


def _mean(case: str, runs: int, looks: int, rng: np.random.Generator) -> Found:
    chances = [_LOST[case], 1 - _LOST[case] - _WON, _WON]
    data = rng.choice([0.0, 0.5, 1.0], p=chances, size=(runs, looks))
    growth = log_increments(data, _M0, alpha=ALPHA)
    yield "betting", _ever(np.cumsum(growth, axis=-1) >= _EVIDENCE)
    bounds = EmpiricalBernstein(alpha=ALPHA, sides="low").update(data)
    yield "empirical_bernstein", _ever(bounds.low > _M0)
    significant = _z_scores(data, _M0) > stats.norm.ppf(1 - ALPHA)
    yield "z_fixed", significant[:, -1]
    yield "z_peeked", _peeked(significant)
    peeks = np.arange(FIRST_PEEK, looks + 1, FIRST_PEEK)
    shown = np.stack([_bootstrap_shows(data[:, :n], rng) for n in peeks], axis=-1)
    yield "bootstrap_fixed", _bootstrap_shows(data, rng)
    yield "bootstrap_peeked", _ever(shown)


def _finite_mean(case: str, runs: int, looks: int, rng: np.random.Generator) -> Found:
    size = 4 * looks // 3
    won, lost = round(_WON * size), {name: round(share * size) for name, share in _LOST.items()}
    # The mean of the set itself is what is tested, so the null has to hold for it exactly.
    bound = (1 + (won - lost["type1"]) / size) / 2
    prompts = np.full(size, 0.5)
    prompts[:won], prompts[won : won + lost[case]] = 1.0, 0.0
    data = rng.permuted(np.tile(prompts, (runs, 1)), axis=-1)[:, :looks]
    growth = log_increments(data, bound, alpha=ALPHA, population=size)
    yield "betting_finite", _ever(np.cumsum(growth, axis=-1) >= _EVIDENCE)


def _slo_and_quantile(case: str, runs: int, looks: int, rng: np.random.Generator) -> Found:
    met = rng.random((runs, looks)) < _IN_LIMIT[case]
    won, seen = np.cumsum(met, axis=-1), np.arange(1, looks + 1)
    evidence = beta_binomial.log_e_one_sided(won, seen, SHARE)
    yield "slo_beta_binomial", _ever(evidence >= _EVIDENCE)
    growth = log_increments(met, SHARE, alpha=ALPHA)
    yield "slo_betting", _ever(np.cumsum(growth, axis=-1) >= _EVIDENCE)
    two_sided = beta_binomial.log_e(won, seen, SHARE) >= _EVIDENCE
    yield "slo_interval", _ever(two_sided & (won > SHARE * seen))
    significant = stats.binom.sf(won - 1, seen, SHARE) <= ALPHA
    yield "slo_binomial_fixed", significant[:, -1]
    yield "slo_binomial_peeked", _peeked(significant)

    # The limit lies in the interval of the p95 exactly if the count of requests within it says so.
    least, most = quantiles.accepted_counts(seen, SHARE, alpha=ALPHA)
    yield "quantile_sequence", _ever((won < least) | (won > most))
    # A resampled p95 is within the limit if enough of the resampled requests are: no need to draw.
    needed = np.ceil(SHARE * seen - 1e-9)
    within = stats.binom.sf(needed - 1, seen, won / seen)
    excluded = (within <= ALPHA / 2) | (within >= 1 - ALPHA / 2)
    yield "quantile_bootstrap_fixed", excluded[:, -1]
    yield "quantile_bootstrap_peeked", _peeked(excluded)


def _sample_ratio(case: str, runs: int, looks: int, rng: np.random.Generator) -> Found:
    first = np.cumsum(rng.random((runs, looks)) < _FIRST_ARM[case], axis=-1)
    seen = np.arange(1, looks + 1)
    counts = np.stack([first, seen - first], axis=-1)
    yield "sample_ratio", _ever(sample_ratio.log_e(counts, [1, 1]) >= _EVIDENCE)
    expected = seen / 2
    mismatch = 2 * (first - expected) ** 2 / expected > stats.chi2.ppf(1 - ALPHA, df=1)
    yield "sample_ratio_chi2_fixed", mismatch[:, -1]
    yield "sample_ratio_chi2_peeked", _peeked(mismatch)


def _drift(case: str, runs: int, looks: int, rng: np.random.Generator) -> Found:
    change = looks // 2
    rates = np.where(np.arange(looks) < change, SHARE, _AFTER_CHANGE[case])
    data = (rng.random((runs, looks)) < rates).astype(np.float64)
    increments = drift.stake_increments(data, SHARE)
    sd = math.sqrt(SHARE * (1 - SHARE))
    sum_path = drift.mean_over_stakes(drift.detector_paths(increments))
    best_path = drift.mean_over_stakes(drift.detector_paths(increments, kind="cusum"))
    alarms = {
        "drift_e_sr": sum_path >= math.log(looks / ALPHA),
        "drift_e_cusum": best_path >= math.log(looks / ALPHA),
        "drift_cusum": drift.cusum_path(data, SHARE, allowance=sd / 2) > 5 * sd,
    }
    for method, raised in alarms.items():
        # An alarm before the change is a false one and finds nothing.
        yield (
            method,
            _ever(raised) if case == "type1" else (_ever(raised) & ~_ever(raised[:, :change])),
        )


def _ever(rejected: BoolArray) -> BoolArray:
    return np.asarray(rejected.any(axis=-1))


def _peeked(rejected: BoolArray) -> BoolArray:
    return _ever(rejected[:, FIRST_PEEK - 1 :])


def _z_scores(data: FloatArray, m0: float) -> FloatArray:
    """After each value; minus infinity where all values are still alike."""
    n = np.arange(1, data.shape[-1] + 1)
    means = np.cumsum(data, axis=-1) / n
    squares = np.cumsum((data - 0.5) ** 2, axis=-1) - n * (means - 0.5) ** 2
    errors = np.sqrt(np.maximum(squares, 0) / np.maximum(n - 1, 1) / n)
    nothing = np.full_like(means, -np.inf)
    return np.asarray(np.divide(means - m0, errors, out=nothing, where=errors > 1e-9))


def _bootstrap_shows(data: FloatArray, rng: np.random.Generator) -> BoolArray:
    """Whether the lower percentile bound of the mean lies above the bound under test.

    Resampling n values of three kinds is a multinomial draw of how many of each there are.
    """
    n = data.shape[-1]
    kinds = np.stack([(data == kind).mean(axis=-1) for kind in (0.0, 0.5, 1.0)], axis=-1)
    draws = rng.multinomial(n, kinds, size=(RESAMPLES, len(data)))
    means = (draws[..., 1] / 2 + draws[..., 2]) / n
    return np.asarray(np.quantile(means, ALPHA, axis=0) > _M0)


def _summary(rejected: BoolArray) -> dict[str, float | int]:
    # None only without runs, which were refused.
    found = cast(Interval, proportion_interval(int(rejected.sum()), len(rejected)))
    return {"rate": found.estimate, "low": found.low, "high": found.high, "runs": found.n}
