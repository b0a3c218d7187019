"""Up to which load an arm pays, and from which on it does not: as measured, and as an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import stats

from specdecode.workload.sweep.paired import Ratio

PAYS: Final = "pays"
LOSES: Final = "does not pay"
UNDECIDED: Final = "undecided"
NOT_MEASURED: Final = "not measured"


def state_of(ratio: Ratio, level: float) -> str:
    """Whether the interval of a throughput ratio lies above 1, below it, or neither."""
    if not ratio.rounds:
        return NOT_MEASURED
    interval = ratio.interval(level)
    if interval is None:
        return UNDECIDED
    if interval.low > 1:
        return PAYS
    return LOSES if interval.high < 1 else UNDECIDED


def crossover(ratios: Mapping[int, Ratio], level: float) -> dict[str, Any]:
    """Where an arm stops to pay, in loads that were measured.

    Args:
        ratios: of throughput over plain decoding, by concurrency.
        level: of the interval at each load by itself.

    Returns:
        JSON-safe. `pays_up_to`: largest load such that it pays there and at every smaller one.
        `does_not_pay_from`: smallest such that it does not pay there and at every larger one.
        `undecided`, `not_measured`: loads that are neither. `monotone`: whether it never pays
        again after a load at which it did not; if it is false, the first two numbers do not tell
        the whole story.
        `estimate`: see `_estimate`; None where none can be given.
    """
    states = {load: state_of(ratios[load], level) for load in sorted(ratios)}
    return {
        "states": {str(load): state for load, state in states.items()},
        "pays_up_to": _last_in_a_row(list(states.items()), PAYS),
        "does_not_pay_from": _last_in_a_row(list(states.items())[::-1], LOSES),
        "undecided": [load for load, state in states.items() if state == UNDECIDED],
        "not_measured": [load for load, state in states.items() if state == NOT_MEASURED],
        "monotone": _is_monotone(list(states.values())),
        "level": level,
        "estimate": _estimate(ratios, level),
    }


def _last_in_a_row(states: list[tuple[int, str]], wanted: str) -> int | None:
    found = None
    for load, state in states:
        if state != wanted:
            break
        found = load
    return found


def _is_monotone(states: list[str]) -> bool:
    """No load that pays comes after one that does not; what is not decided may be either."""
    pays = [state == PAYS for state in states if state in (PAYS, LOSES)]
    return pays == sorted(pays, reverse=True)


def _estimate(ratios: Mapping[int, Ratio], level: float) -> dict[str, Any] | None:
    """A load between two measured ones at which the ratio would be 1.

    The logarithm of the ratio is taken to be linear in the logarithm of the load between the two
    measured loads around the only change of sign. It is an interpolation and no measurement. The
    interval is Student's t of the jackknife over rounds; None with fewer than two rounds, or where
    a round left out takes the crossing away.
    """
    above_one = {load: r.estimate > 1 for load, r in sorted(ratios.items()) if r.estimate}
    changes = [(a, b) for a, b in pairwise(above_one) if above_one[a] != above_one[b]]
    if len(changes) != 1 or not above_one[changes[0][0]]:
        return None
    loads = changes[0]
    around = ratios[loads[0]], ratios[loads[1]]
    center = _crossing(loads, around)
    if center is None:
        return None
    low, high = _interval(loads, around, center, level) or (None, None)
    return {
        "concurrency": math.exp(center),
        "low": low,
        "high": high,
        "between": list(loads),
        "method": "log-linear interpolation, not measured",
    }


def _interval(
    loads: tuple[int, int], around: tuple[Ratio, Ratio], center: float, level: float
) -> tuple[float, float] | None:
    # What a round does is common to both loads, so it is left out of both.
    rounds = around[0].by_round.keys() | around[1].by_round.keys()
    if (k := len(rounds)) < 2:
        return None
    without: list[float] = []
    for left_out in sorted(rounds):
        first, second = (
            Ratio({r: log for r, log in each.by_round.items() if r != left_out}) for each in around
        )
        found = _crossing(loads, (first, second))
        if found is None:
            return None
        without.append(found)
    error = math.sqrt((k - 1) / k) * float(np.linalg.norm(np.array(without) - np.mean(without)))
    reach = float(stats.t.ppf((1 + level) / 2, k - 1)) * error
    return math.exp(center - reach), math.exp(center + reach)


def _crossing(loads: tuple[int, int], around: tuple[Ratio, Ratio]) -> float | None:
    """Logarithm of the load at which the line through both is 0; None if it falls nowhere."""
    first, second = around[0].estimate, around[1].estimate
    if first is None or second is None or not first > 1 >= second > 0:
        return None
    share = math.log(first) / (math.log(first) - math.log(second))
    return math.log(loads[0]) + share * (math.log(loads[1]) - math.log(loads[0]))
