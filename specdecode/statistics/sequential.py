"""What the sequential methods share: their results, and the checks of their input.

An e-process is a non-negative process whose mean is at most 1 at every stopping time while the
hypothesis holds. So P(it ever reaches 1/alpha) <= alpha (Ville's inequality): it may be looked at
after every value, and a rejection, once reached, stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Side = Literal["greater", "less"]


@dataclass(frozen=True)
class SequentialTest:
    """Outcome of a one-sided sequential test.

    Attributes:
        log_e: log evidence after the last value (0 when there were none).
        rejected_at: number of values after which it first reached log(1/alpha); None if never.
        n: number of values seen.
    """

    log_e: float
    rejected_at: int | None
    n: int


@dataclass(frozen=True)
class ConfidenceSequence:
    """Bounds for one number after each value, all of them right at once with chance 1 - alpha.

    Attributes:
        low: float [t], never decreasing.
        high: float [t], never increasing. Below `low` when no value fits the data any more.
    """

    low: FloatArray
    high: FloatArray


def sequential_test(path: FloatArray, alpha: float) -> SequentialTest:
    """Reads the outcome off the log evidence after each value, float [t]."""
    crossed = np.flatnonzero(path >= math.log(1 / alpha))
    return SequentialTest(
        log_e=float(path[-1]) if len(path) else 0.0,
        rejected_at=int(crossed[0]) + 1 if len(crossed) else None,
        n=len(path),
    )


def one_dimensional(values: npt.ArrayLike) -> FloatArray:
    """One stream of numbers as float [t].

    Raises:
        ConfigError: more or fewer dimensions than one.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1:
        raise ConfigError(f"values must be one-dimensional, not of shape {data.shape}")
    return data


def unit_values(values: npt.ArrayLike) -> FloatArray:
    """Streams of numbers in [0, 1] as float [..., t].

    Raises:
        ConfigError: a value is missing (NaN) or outside [0, 1]; names the first one.
    """
    data = np.asarray(values, dtype=np.float64)
    outside = ~((data >= 0) & (data <= 1))  # also catches NaN
    _refuse_first(outside, data, "value", "outside the declared bounds [0, 1]")
    return data


def indicator_values(values: npt.ArrayLike) -> FloatArray:
    """One stream of answers, 0 or 1, as float [t].

    Raises:
        ConfigError: a value is missing (NaN) or another number; names the first one.
    """
    data = one_dimensional(values)
    _refuse_first((data != 0) & (data != 1), data, "indicator", "neither 0 nor 1")  # NaN too
    return data


def check_side(side: Side) -> None:
    """Refuses a side that there is not: a word mistyped must not test the other one."""
    if side not in get_args(Side):
        raise ConfigError(f"side must be {' or '.join(get_args(Side))}, not {side!r}")


def check_inside(name: str, number: float, low: float = 0.0, high: float = 1.0) -> None:
    """Refuses a setting outside the open interval (low, high)."""
    if not low < number < high:
        raise ConfigError(f"{name} must lie inside ({low:g}, {high:g}), not {number}")


def check_within(name: str, number: float, low: float = 0.0, high: float = 1.0) -> None:
    """Refuses a setting outside the closed interval [low, high]."""
    if not low <= number <= high:
        raise ConfigError(f"{name} must lie in [{low:g}, {high:g}], not {number}")


def _refuse_first(bad: npt.NDArray[np.bool_], data: FloatArray, what: str, problem: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise ConfigError(f"{what} {row} is {data.flat[row]}, {problem}")
