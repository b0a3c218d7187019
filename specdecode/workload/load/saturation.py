"""Was the latency that of the server under this load? Not if the client or the server gave way.

Client: a request is late when it was sent more than the allowed lag after it was due (waits for a
free slot of the client left out). The client was saturated when more than 1 % of requests were
late, or when it woke up later than that from more than 1 % of its own short sleeps.

Server, open loop only: when it cannot keep up, requests pile up. The time from the first to the
last arrival is cut into ten blocks. The backlog grows when the mean number of requests in flight
and the mean wait for an answer both rise from block to block (lower end of the 95 % t interval of
the least-squares slope above 0), and by more than chance ripples: over the run the line must climb
by at least 2 requests and by half of the mean. A server that refuses more than 1 % of requests
(HTTP 429), or leaves that many unanswered by their deadline, is saturated as well. In a closed loop
the backlog cannot grow, so the question does not arise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from specdecode.workload.load.faults import DEADLINE, IDLE_TIMEOUT, TOO_MANY
from specdecode.workload.load.window import Details, Floats, column, in_flight

State = Literal["saturated", "not saturated", "unknown", "does not apply"]

TOLERATED_SHARE: Final = 0.01
BLOCKS: Final = 10
LEAST_REQUESTS: Final = 30
LEAST_BEATS: Final = 20


@dataclass(frozen=True)
class Saturation:
    """An answer.

    Args:
        state: "unknown" never counts as "not saturated".
        reasons: why.
        numbers: what it was decided on.
    """

    state: State
    reasons: tuple[str, ...]
    numbers: dict[str, float | int | None]

    def to_json(self) -> dict[str, Any]:
        """JSON-safe."""
        return {"state": self.state, "reasons": list(self.reasons), **self.numbers}


def client_saturation(
    details: Sequence[Details], heartbeat_late_s: Sequence[float], max_lag_s: float
) -> Saturation:
    """Whether the client kept up with its own schedule.

    Args:
        details: of all requests sent.
        heartbeat_late_s: by how much it overslept; empty when that is not known.
        max_lag_s: lag that is tolerated.
    """
    lags = [d["lag_s"] for d in details if d["lag_s"] is not None]
    late = sum(lag > max_lag_s for lag in lags)
    beats = list(heartbeat_late_s)
    slow = sum(beat > max_lag_s for beat in beats)
    numbers: dict[str, float | int | None] = {
        "max_lag_s": max_lag_s,
        "requests": len(lags),
        "late": late,
        "worst_lag_s": max(lags, default=None),
        "beats": len(beats),
        "slow_beats": slow,
        "worst_beat_s": round(max(beats), 6) if beats else None,
    }
    reasons = []
    if lags and late > TOLERATED_SHARE * len(lags):
        reasons.append(
            f"{late} of {len(lags)} requests were sent more than {max_lag_s:g} s after they were "
            "due; use a faster or idler machine, several clients, or a lower rate"
        )
    if len(beats) >= LEAST_BEATS and slow > TOLERATED_SHARE * len(beats):
        reasons.append(
            f"the client overslept by more than {max_lag_s:g} s in {slow} of {len(beats)} short "
            "sleeps: its times of arrival are as rough"
        )
    if reasons:
        return Saturation("saturated", tuple(reasons), numbers)
    if not lags or len(beats) < LEAST_BEATS:
        return Saturation("unknown", ("too short a run to tell",), numbers)
    return Saturation("not saturated", (), numbers)


def server_saturation(details: Sequence[Details], *, open_loop: bool) -> Saturation:
    """Whether the server kept up with the arrivals."""
    total = len(details)
    kinds = [d["error_class"] for d in details]
    refused = sum(kind == TOO_MANY for kind in kinds)
    unanswered = sum(kind in (DEADLINE, IDLE_TIMEOUT) for kind in kinds)
    numbers: dict[str, float | int | None] = {
        "requests": total,
        "refused": refused,
        "unanswered": unanswered,
    }
    reasons = []
    if refused > TOLERATED_SHARE * total:
        reasons.append(f"the server refused {refused} of {total} requests (HTTP 429)")
    if unanswered > TOLERATED_SHARE * total:
        reasons.append(f"{unanswered} of {total} requests were not answered in time")
    trend = _trend(details) if open_loop else None
    if trend is not None:
        numbers |= trend.numbers
        if trend.grows:
            reasons.append(
                f"the backlog grew by {trend.climb:.1f} requests from first to last arrival, and "
                "the wait for an answer with it: the rate is more than the server serves"
            )
    if reasons:
        return Saturation("saturated", tuple(reasons), numbers)
    if not open_loop:
        why = "a closed loop sends no faster than replies come"
        return Saturation("does not apply", (why,), numbers)
    if trend is None:
        why = f"fewer than {LEAST_REQUESTS} requests, or arrivals too clumped, to see a trend"
        return Saturation("unknown", (why,), numbers)
    return Saturation("not saturated", (), numbers)


@dataclass(frozen=True)
class _Trend:
    grows: bool
    climb: float
    numbers: dict[str, float | int | None]


def _trend(details: Sequence[Details]) -> _Trend | None:
    if len(details) < LEAST_REQUESTS:
        return None
    due, sent, ended = (column(details, name) for name in ("due_s", "sent_s", "ended_s"))
    answered = column(details, "first_s")
    # Without a first token the wait was at least as long as the exchange.
    wait = np.where(np.isnan(answered), ended, answered) - due
    start, end = float(due.min()), float(due.max())
    if end <= start:
        return None
    edges = np.linspace(start, end, BLOCKS + 1)
    place = np.clip(np.searchsorted(edges, due, side="right") - 1, 0, BLOCKS - 1)
    if len(np.unique(place)) < BLOCKS:
        return None
    reached = ~np.isnan(sent)
    # From due to end: what waits in the client for a free slot is backlog, too.
    flying = in_flight(due[reached], ended[reached], edges)
    waits = np.array([wait[place == block].mean() for block in range(BLOCKS)])
    climb, low = slope(flying)
    wait_climb, wait_low = slope(waits)
    grows = low > 0 and wait_low > 0 and climb >= max(2.0, float(flying.mean()) / 2)
    return _Trend(
        bool(grows),
        climb,
        {
            "backlog_climb": round(climb, 3),
            "backlog_climb_low": round(low, 3),
            "wait_climb_s": round(wait_climb, 6),
            "wait_climb_low_s": round(wait_low, 6),
            "mean_in_flight": round(float(flying.mean()), 3),
        },
    )


def slope(values: Floats) -> tuple[float, float]:
    """(rise of the least-squares line from first to last value, lower end of its 95 % interval).

    Ordinary least squares with equally spaced times; Student t with n − 2 degrees of freedom.
    """
    from scipy import stats

    n = len(values)
    times = np.linspace(-0.5, 0.5, n)
    spread = float((times**2).sum())
    rise = float((times * values).sum()) / spread
    rest = values - values.mean() - rise * times
    error = math.sqrt(float((rest**2).sum()) / (n - 2) / spread)
    return rise, rise - float(stats.t.ppf(0.975, n - 2)) * error
