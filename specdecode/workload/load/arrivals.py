"""When requests are due, in seconds after the start, known before the first one is sent.

An open loop sends at its own times, whatever the server does: only then does a server that stalls
make later requests wait, as it would make users wait. A closed loop waits for replies and so slows
down with the server; its latencies say nothing about a load the server did not choose (coordinated
omission).

Gaps are never rescaled to hit a rate exactly: n arrivals at rate r end at n / r in expectation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from specdecode.errors import ConfigError

Kind = Literal["poisson", "gamma", "constant", "ramp", "trace", "closed"]

_STREAM = 0x41525256
"""Tells the random numbers of arrivals from others that are drawn with the same seed."""


class Arrivals(Protocol):
    """A schedule: due times in seconds, never decreasing, endless unless it replays a trace."""

    def times(self, seed: int) -> Iterator[float]:
        """The due times; the same seed gives the same times."""


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([_STREAM, seed])


@dataclass(frozen=True)
class Gamma:
    """Independent gaps, gamma distributed with mean 1 / rate.

    Args:
        rate: requests per second.
        burstiness: shape of the gamma law. 1 is a Poisson process; below 1 requests come in
            bursts; above 1 they are more even. The coefficient of variation of a gap is
            1 / √burstiness.
    """

    rate: float
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        _positive("rate", self.rate)
        _positive("burstiness", self.burstiness)

    def times(self, seed: int) -> Iterator[float]:
        """See `Arrivals`."""
        draw, now = _generator(seed), 0.0
        scale = 1.0 / (self.rate * self.burstiness)
        while True:
            now += float(draw.gamma(self.burstiness, scale))
            yield now


@dataclass(frozen=True)
class Constant:
    """One request every 1 / rate seconds, the first at 0."""

    rate: float

    def __post_init__(self) -> None:
        _positive("rate", self.rate)

    def times(self, seed: int) -> Iterator[float]:
        """See `Arrivals`; nothing is drawn."""
        del seed
        for index in itertools.count():  # a product, not a sum: no rounding adds up
            yield index / self.rate


@dataclass(frozen=True)
class Ramp:
    """A Poisson process whose rate goes from one value to another in a straight line.

    After the ramp the rate stays at its final value.

    Args:
        rate: requests per second at the start; may be 0.
        final_rate: at the end of the ramp; may be lower.
        duration_s: how long the ramp takes.
    """

    rate: float
    final_rate: float
    duration_s: float

    def __post_init__(self) -> None:
        for name, value in (("rate", self.rate), ("final rate", self.final_rate)):
            if not (0 <= value < float("inf")):
                raise ConfigError(f"arrivals: the {name} must not be negative, found {value}")
        _positive("final rate", self.final_rate)
        _positive("duration", self.duration_s)

    def times(self, seed: int) -> Iterator[float]:
        """See `Arrivals`.

        Time change: if U is an arrival of a Poisson process of rate 1, then the t with
        Λ(t) = ∫₀ᵗ rate = U is one of this process.
        """
        draw, mass = _generator(seed), 0.0
        while True:
            mass += float(draw.exponential())
            yield self._when(mass)

    def expected(self, until_s: float) -> float:
        """Λ: expected number of arrivals up to a time."""
        ramp = min(until_s, self.duration_s)
        slope = (self.final_rate - self.rate) / self.duration_s
        return (
            self.rate * ramp + slope * ramp * ramp / 2 + self.final_rate * max(0.0, until_s - ramp)
        )

    def _when(self, mass: float) -> float:
        if mass <= 0:
            return 0.0
        total = self.expected(self.duration_s)
        if mass >= total:
            return self.duration_s + (mass - total) / self.final_rate
        slope = (self.final_rate - self.rate) / self.duration_s
        # 2m / (r + √(r² + 2 s m)) solves s t²/2 + r t = m without cancellation, also for s = 0.
        root = math.sqrt(max(0.0, self.rate * self.rate + 2 * slope * mass))
        return float(min(self.duration_s, 2 * mass / (self.rate + root)))


@dataclass(frozen=True)
class Replay:
    """Times of a trace, moved so that the first is 0, and sped up if asked.

    Args:
        timestamps: seconds, in any order of magnitude, never decreasing.
        speed_up: 2 replays twice as fast.
    """

    timestamps: Iterable[float]
    speed_up: float = 1.0

    def __post_init__(self) -> None:
        _positive("speed-up", self.speed_up)

    def times(self, seed: int) -> Iterator[float]:
        """See `Arrivals`; nothing is drawn.

        Raises:
            ConfigError: a time lies before the one it follows.
        """
        del seed
        first = before = None
        for number, now in enumerate(self.timestamps, start=1):
            if first is None or before is None:
                first = before = now
            if now < before:
                raise ConfigError(
                    f"trace request {number}: its time {now} lies before {before} of the one it "
                    "follows; sort the trace by time"
                )
            before = now
            yield (now - first) / self.speed_up


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ConfigError(f"arrivals: the {name} must be above 0, found {value}")
