"""Metrics between arms with intervals over whole prompts.

A speed ratio is a ratio of two pooled metrics, each itself Σ numerator / Σ denominator. A prompt
counts as one, with all that it contributed (both arms, every sampling setting), so neither the
pairing nor the correlation of a prompt's tokens is lost. Fewer than two prompts give no interval.

* means and ratios of sums: Student's t by leaving out prompts (`statistics.jackknife`)
* differences of scores, which are bounded: betting (`statistics.betting_interval`)
* ratios of quantiles: bootstrap (`statistics.bootstrap`); they raise alarms and show nothing

Requests come as records or, where there are many, as cells of a grid; the intervals are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.measurement.arrays import FloatArray
from specdecode.measurement.grid import Pairs, Requests
from specdecode.measurement.metrics import Metric
from specdecode.measurement.pairing import Pairing
from specdecode.measurement.records import Record
from specdecode.statistics import betting_interval, jackknife
from specdecode.statistics.bootstrap import paired_quantile_ratio_interval
from specdecode.statistics.interval import Interval

RESAMPLES = 2000

Prompts = npt.NDArray[np.integer[Any]]
Keyed = tuple[str, tuple[float, ...]]


def metric_interval(
    metric: Metric, requests: Sequence[Record] | Requests, *, level: float
) -> Interval | None:
    """Pooled metric of one arm with an interval over prompts."""
    prompts: Prompts
    if isinstance(requests, Requests):
        sample = requests.sample(metric)
        prompts, parts = sample.prompts, sample.parts
    else:
        found = [(r.prompt_id, p) for r in requests if (p := metric.parts(r)) is not None]
        # Sums follow the order of the rows in their last bit; the result must not.
        prompts, parts = _columns(sorted(found), 2)
    return jackknife.ratio_interval(parts[0], parts[1], clusters=prompts, level=level)


def ratio_interval(metric: Metric, pairing: Pairing | Pairs, *, level: float) -> Interval | None:
    """Pooled metric of the arm / pooled metric of the baseline, over pairs where both have it.

    Returns:
        The interval, `n` prompts in it; None with fewer than two prompts, or when the baseline's
        metric is zero without some prompt.
    """
    prompts, parts = _paired_parts(metric, pairing, ordered_by_value=True)
    return jackknife.ratio_of_ratios_interval(
        (parts[0], parts[1]), (parts[2], parts[3]), clusters=prompts, level=level
    )


def quantile_ratio_interval(
    metric: Metric, pairing: Pairing | Pairs, quantile: float, *, level: float, seed: int
) -> Interval | None:
    """A quantile over the arm's requests / the same quantile over the baseline's.

    A bootstrapped tail has rough coverage: good enough to raise an alarm, not to prove absence.
    """
    clusters, arms, bases = _paired_values(metric, pairing)
    return paired_quantile_ratio_interval(
        arms, bases, quantile, clusters=clusters, level=level, resamples=RESAMPLES, seed=seed
    )


def difference_interval(
    metric: Metric, pairing: Pairing | Pairs, *, level: float, seed: int
) -> Interval | None:
    """Mean over prompts of (arm − baseline), from pairs where both have the metric.

    Args:
        metric: with values from 0 to 1.
        pairing: of the arm with the baseline.
        level: coverage.
        seed: of the order in which prompts are bet on.
    """
    clusters, arms, bases = _paired_values(metric, pairing)
    return betting_interval.difference_interval(
        arms, bases, clusters=clusters, level=level, seed=seed
    )


def _paired_values(
    metric: Metric, pairing: Pairing | Pairs
) -> tuple[Prompts, FloatArray, FloatArray]:
    """Prompt, arm's value, baseline's value of each pair where both have one."""
    prompts, parts = _paired_parts(metric, pairing, ordered_by_value=False)
    return prompts, parts[0] / parts[1], parts[2] / parts[3]


def _paired_parts(
    metric: Metric, pairing: Pairing | Pairs, *, ordered_by_value: bool
) -> tuple[Prompts, tuple[FloatArray, ...]]:
    if isinstance(pairing, Pairs):
        sample = pairing.sample(metric, ordered_by_value=ordered_by_value)
        return sample.prompts, sample.parts
    found: list[Keyed] = []
    for base, arm in pairing.pairs:
        base_parts, arm_parts = metric.parts(base), metric.parts(arm)
        if base_parts is not None and arm_parts is not None:
            found.append((base.prompt_id, (*arm_parts, *base_parts)))
    return _columns(sorted(found) if ordered_by_value else found, 4)


def _columns(found: Sequence[Keyed], width: int) -> tuple[Prompts, tuple[FloatArray, ...]]:
    """Prompts as numbers in order of appearance, and each part as a column."""
    numbers: dict[str, int] = {}
    prompts = [numbers.setdefault(prompt, len(numbers)) for prompt, _ in found]
    values = np.array([parts for _, parts in found], dtype=np.float64).reshape(-1, width)
    return np.array(prompts, dtype=np.int64), tuple(values.T)
