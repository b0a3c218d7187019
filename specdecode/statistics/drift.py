"""Watching a released change: alarms with a stated average run length.

A watch that never ends will alarm some day, so it promises no p-value but an average run length:
the mean number of values until a false alarm.

The e-detector restarts a bet against "the mean is still at least m0" at every value, and adds up
the wealth of all starts (Shiryaev-Roberts) or follows the best of them (CUSUM):

    M_t = L_t (1 + M_{t-1})          e-SR
    M_t = L_t max(1, M_{t-1})        e-CUSUM, never above e-SR
    L_t = 1 + lambda (m0 - X_t)

While the mean is at least m0, M_t - t is a supermartingale for e-SR, so an alarm at M_t >= A has an
average run length of at least A, whatever the distribution. The stakes are fixed: bets learnt from
the whole past (`betting`) shrink over a long healthy run and would see a change too late. M is the
mean over several stakes, which keeps the guarantee.

The plain CUSUM, S_t = max(0, S_{t-1} + mu0 - X_t - k), alarms at S_t > h. Its average run length
depends on the distribution and has to be simulated.

Source: J. Shin, A. Ramdas and A. Rinaldo, "E-detectors", arXiv 2203.03532; E. Page, Biometrika 41
(1954).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError
from specdecode.statistics.sequential import (
    FloatArray,
    Side,
    check_inside,
    check_side,
    one_dimensional,
    unit_values,
)

Kind = Literal["shiryaev-roberts", "cusum"]

# Shares of the wealth at risk per value: small ones find small changes, large ones sudden failures.
STAKES: tuple[float, ...] = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)


class EDetector:
    """Raises an alarm when the mean of [0, 1] values has left its bound.

    Args:
        m0: the bound, inside (0, 1).
        average_run_length: values until a false alarm, on average, at least; more than 1. Streams
            that are watched side by side each raise their own false alarms.
        side: "less" watches for a mean below m0, "greater" for one above.
        kind: e-SR or e-CUSUM.
        stakes: shares of the wealth at risk per value, each inside (0, 1).

    Attributes:
        n: values read.
        alarm_at: number of values after which M first reached the average run length; None if
            never. An alarm stays; a new watch is a new detector.
    """

    def __init__(
        self,
        m0: float,
        *,
        average_run_length: float,
        side: Side = "less",
        kind: Kind = "shiryaev-roberts",
        stakes: tuple[float, ...] = STAKES,
    ) -> None:
        check_inside("m0", m0)
        check_side(side)
        check_inside("average_run_length", average_run_length, low=1, high=math.inf)
        if not stakes:
            raise ConfigError("an e-detector needs at least one stake")
        for stake in stakes:
            check_inside("a stake", stake)
        self.n = 0
        self.alarm_at: int | None = None
        self._m0, self._side, self._kind = m0, side, kind
        self._stakes = stakes
        self._threshold = math.log(average_run_length)
        self._logs: FloatArray = np.full((len(stakes), 1), -np.inf)

    def update(self, values: npt.ArrayLike) -> FloatArray:
        """Reads the next values.

        Args:
            values: [t], in [0, 1].

        Returns:
            float [t]: log M after each of them.
        """
        data = unit_values(one_dimensional(values))
        if not len(data):
            return data
        increments = stake_increments(data, self._m0, side=self._side, stakes=self._stakes)
        paths = detector_paths(increments, kind=self._kind, start=self._logs)
        self._logs = paths[:, -1:]
        log_m = mean_over_stakes(paths)
        reached = np.flatnonzero(log_m >= self._threshold)
        if self.alarm_at is None and len(reached):
            self.alarm_at = self.n + int(reached[0]) + 1
        self.n += len(data)
        return log_m


def stake_increments(
    values: FloatArray, m0: float, *, side: Side = "less", stakes: tuple[float, ...] = STAKES
) -> FloatArray:
    """Log L_t of each stake: float [..., t] -> [..., L, t]."""
    if side == "less":
        values, m0 = 1 - values, 1 - m0
    fractions = np.asarray(stakes)[:, None] / m0
    return np.log1p(fractions * (values[..., None, :] - m0))


def detector_paths(
    increments: FloatArray, *, kind: Kind = "shiryaev-roberts", start: npt.ArrayLike = -np.inf
) -> FloatArray:
    """Log M_1..log M_t of one bet from its log L_1..log L_t and log M_0; float [..., t].

    Unrolled, M_t = prod_{i<=t} L_i * (M_0 + sum_{j<=t} 1 / prod_{i<j} L_i), with the maximum in
    place of the sum for e-CUSUM.
    """
    totals = np.cumsum(increments, axis=-1)
    gather = np.logaddexp if kind == "shiryaev-roberts" else np.maximum
    before = np.concatenate([np.zeros_like(totals[..., :1]), -totals[..., :-1]], axis=-1)
    before[..., :1] = gather(before[..., :1], start)
    return np.asarray(totals + gather.accumulate(before, axis=-1))


def mean_over_stakes(paths: FloatArray) -> FloatArray:
    """Log of the mean of M over stakes: float [..., L, t] -> [..., t]."""
    return np.asarray(np.logaddexp.reduce(paths, axis=-2) - math.log(paths.shape[-2]))


class Cusum:
    """Plain one-sided CUSUM of values in any unit.

    Args:
        mean: the healthy mean mu0.
        allowance: k >= 0, usually half the change worth finding.
        threshold: h > 0.
        side: "less" watches for a fall below the mean, "greater" for a rise above it.

    Attributes:
        n: values read.
        alarm_at: number of values after which S first exceeded h; None if never.
    """

    def __init__(
        self, mean: float, *, allowance: float, threshold: float, side: Side = "less"
    ) -> None:
        if not allowance >= 0:
            raise ConfigError(f"allowance must be at least 0, not {allowance}")
        check_inside("threshold", threshold, high=math.inf)
        check_side(side)
        self.n = 0
        self.alarm_at: int | None = None
        self._mean, self._allowance, self._threshold = mean, allowance, threshold
        self._side = side
        self._last = 0.0

    def update(self, values: npt.ArrayLike) -> FloatArray:
        """Reads the next values, [t], and returns S after each, float [t]."""
        data = one_dimensional(values)
        if not np.isfinite(data).all():
            row = int(np.argmin(np.isfinite(data)))
            raise ConfigError(f"value {row} is missing or not finite: leave it out and count it")
        if not len(data):
            return data
        path = cusum_path(
            data, self._mean, allowance=self._allowance, side=self._side, start=self._last
        )
        self._last = float(path[-1])
        reached = np.flatnonzero(path > self._threshold)
        if self.alarm_at is None and len(reached):
            self.alarm_at = self.n + int(reached[0]) + 1
        self.n += len(data)
        return path


def cusum_path(
    values: FloatArray, mean: float, *, allowance: float, side: Side = "less", start: float = 0.0
) -> FloatArray:
    """S_1..S_t of the plain CUSUM from its values and S_0; float [..., t]."""
    falls = mean - values if side == "less" else values - mean
    totals = np.cumsum(falls - allowance, axis=-1)
    return np.asarray(totals + np.maximum(start, np.maximum.accumulate(-totals, axis=-1)))
