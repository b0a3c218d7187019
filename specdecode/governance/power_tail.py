"""The tail-latency rule over simulated rows, with all resamples at once.

`decide` spends two thirds of its time on the quantiles of 2000 resamples, one after another. Here a
resample is a row of weights over prompts, and the quantile of all of them falls out of one
cumulative sum over the sorted values. Statistic, method and number of resamples are the rule's own;
only the draws differ.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.governance.rules.tail_latency import TailLatency
from specdecode.governance.verdict import RuleResult
from specdecode.measurement.intervals import RESAMPLES
from specdecode.statistics.interval import Interval

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]


def judge_tail(
    rule: TailLatency, rows: pa.Table, baseline: str, rng: np.random.Generator
) -> RuleResult:
    """What the rule finds in rows of `simulated_rows`.

    Args:
        rule: of a stage's view of a plan.
        rows: one complete run; requests of an arm stand in one order of prompts and settings.
        baseline: name of the baseline arm.
        rng: source of the resamples.
    """
    own, base = _values(rule, rows, rule.arm), _values(rule, rows, baseline)
    paired = ~np.isnan(own[1]) & ~np.isnan(base[1])
    prompts, clusters = np.unique(own[0][paired], return_inverse=True)
    n = len(prompts)
    if n < 2:
        return rule.judge(None, rule.threshold, n=n)
    once = np.ones((1, n), dtype=np.int64)
    drawn = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    ratios = [
        weighted_quantile(own[1][paired], clusters, weights, rule.quantile)
        / weighted_quantile(base[1][paired], clusters, weights, rule.quantile)
        for weights in (once, drawn)
    ]
    low, high = np.quantile(ratios[1], [(1 - rule.level) / 2, (1 + rule.level) / 2])
    found = Interval(float(ratios[0][0]), float(low), float(high), n, rule.level, "percentile")
    return rule.judge(found, rule.threshold, n=n)


def weighted_quantile(
    values: FloatArray, clusters: IntArray, weights: IntArray, quantile: float
) -> FloatArray:
    """Quantiles of resamples, as `numpy.quantile` has them of the repeated values.

    Args:
        values: [n].
        clusters: [n], 0..K-1.
        weights: [B, K], how often each cluster was drawn; no row is all 0.
        quantile: in [0, 1]; linear between order statistics.

    Returns:
        [B].
    """
    order = np.argsort(values, kind="stable")
    chosen = np.ascontiguousarray(weights.T)[clusters[order]]
    reached = np.cumsum(chosen, axis=0, dtype=weights.dtype)  # draws among the smallest 1..n
    place = (reached[-1] - 1) * quantile
    below = np.floor(place)
    ends = [
        values[order][np.count_nonzero(reached <= rank.astype(weights.dtype), axis=0)]
        for rank in (below, np.minimum(below + 1, reached[-1] - 1))
    ]
    return np.asarray(ends[0] + (place - below) * (ends[1] - ends[0]))


def _values(rule: TailLatency, rows: pa.Table, arm: str) -> tuple[npt.NDArray[np.str_], FloatArray]:
    """Prompt and latency of the arm's requests that the rule looks at; NaN for failed ones."""
    wanted = np.asarray(rows["arm"].to_pylist()) == arm
    if rule.sampling is not None:
        names = [json.loads(str(text))["name"] for text in rows["sampling"].to_pylist()]
        wanted &= np.asarray(names) == rule.sampling
    table = rows.filter(pa.array(wanted))
    seconds = table["e2e_s" if rule.metric == "tpot_s" else rule.metric].to_numpy()
    if rule.metric == "tpot_s":
        seconds = (seconds - table["ttft_s"].to_numpy()) / (table["output_tokens"].to_numpy() - 1)
    failed = np.asarray([error is not None for error in table["error"].to_pylist()])
    return np.asarray(table["prompt_id"].to_pylist()), np.where(failed, np.nan, seconds)
