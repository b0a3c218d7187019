"""Metrics between arms with intervals, resampling whole prompts.

A speed ratio is a ratio of two pooled metrics, each itself Σ numerator / Σ denominator. Resampling
prompts keeps all that one prompt contributed together (both arms, every sampling setting), so
neither the pairing nor the correlation of a prompt's tokens is lost. Fewer than two prompts give
no interval: None.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.measurement.metrics import Metric
from specdecode.measurement.pairing import Pairing
from specdecode.measurement.records import Record
from specdecode.statistics.bootstrap import (
    Interval,
    paired_difference_interval,
    paired_quantile_ratio_interval,
    paired_ratio_interval,
    paired_ratio_of_ratios_interval,
)

RESAMPLES = 2000


def metric_interval(
    metric: Metric, records: Sequence[Record], *, level: float, seed: int
) -> Interval | None:
    """Pooled metric of one arm with an interval over prompts."""
    found = [(r.prompt_id, parts) for r in records if (parts := metric.parts(r)) is not None]
    found.sort()  # the draws follow the order of the rows; the result must not
    return paired_ratio_interval(
        [parts[0] for _, parts in found],
        [parts[1] for _, parts in found],
        clusters=[prompt for prompt, _ in found],
        level=level,
        resamples=RESAMPLES,
        seed=seed,
    )


def ratio_interval(metric: Metric, pairing: Pairing, *, level: float, seed: int) -> Interval | None:
    """Pooled metric of the arm / pooled metric of the baseline, over pairs where both have it.

    Returns:
        The interval, `n` prompts in it; None with fewer than two prompts, or when the baseline's
        metric is zero in some resample.
    """
    found = []
    for base, arm in pairing.pairs:
        base_parts, arm_parts = metric.parts(base), metric.parts(arm)
        if base_parts is not None and arm_parts is not None:
            found.append((base.prompt_id, arm_parts, base_parts))
    found.sort()  # the draws follow the order of the rows; the result must not
    return paired_ratio_of_ratios_interval(
        ([arm[0] for _, arm, _ in found], [arm[1] for _, arm, _ in found]),
        ([base[0] for _, _, base in found], [base[1] for _, _, base in found]),
        clusters=[prompt for prompt, _, _ in found],
        level=level,
        resamples=RESAMPLES,
        seed=seed,
    )


def quantile_ratio_interval(
    metric: Metric, pairing: Pairing, quantile: float, *, level: float, seed: int
) -> Interval | None:
    """A quantile over the arm's requests / the same quantile over the baseline's.

    A bootstrapped tail has rough coverage: good enough to raise an alarm, not to prove absence.
    """
    clusters, arms, bases = _paired_values(metric, pairing)
    return paired_quantile_ratio_interval(
        arms, bases, quantile, clusters=clusters, level=level, resamples=RESAMPLES, seed=seed
    )


def difference_interval(
    metric: Metric, pairing: Pairing, *, level: float, seed: int
) -> Interval | None:
    """Mean over pairs of (arm − baseline), pairs where both have the metric."""
    clusters, arms, bases = _paired_values(metric, pairing)
    return paired_difference_interval(
        arms, bases, clusters=clusters, level=level, resamples=RESAMPLES, seed=seed
    )


def _paired_values(metric: Metric, pairing: Pairing) -> tuple[list[str], list[float], list[float]]:
    """Prompt, arm's value, baseline's value of each pair where both have one."""
    clusters, arms, bases = [], [], []
    for base, arm in pairing.pairs:
        base_value, arm_value = metric.value(base), metric.value(arm)
        if base_value is not None and arm_value is not None:
            clusters.append(base.prompt_id)
            arms.append(arm_value)
            bases.append(base_value)
    return clusters, arms, bases
