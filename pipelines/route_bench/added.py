"""Added latency: what a way takes longer than the server itself in the same round.

In each round, with D the times of direct requests and A those of a way,

    added of a reply     a - median(D)
    median added         median over A of it
    p99 added            99th percentile over A of it: what 1 % of the users notice, the server's
                         and the client's own spread included
    p99 minus p99        p99(A) - p99(D): the same without that spread

Requests of a round share what the machine does just then, so the unit is the round: the estimate is
the mean over rounds, and the interval is Student's t. With one round there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.route_bench.arms import ARMS, DIRECT, ROUTED
from pipelines.route_bench.servers import LITELLM
from specdecode.statistics.jackknife import of_sums

LEVEL: Final = 0.95
MEDIAN_LIMIT_MS: Final = 1.5
P99_LIMIT_MS: Final = 8.0
SHARE_LIMIT: Final = 0.1
"""A shadow without copies would be fast, and say nothing."""
LEAST: Final = 100
"""Replies of a round below which it has no 99th percentile."""

TIMES: Final = {"json": ("total",), "stream": ("first", "total")}
"""What is timed of a reply: its first bytes, and all of it."""

Json = dict[str, Any]
Values = npt.NDArray[np.float64]


class Case(NamedTuple):
    """What is timed at which load.

    Attributes:
        rate: requests a second.
        kind: of replies.
        time: "first" or "total".
    """

    rate: float
    kind: str
    time: str


def summary(rounds: Sequence[Json]) -> Json:
    """Everything that the report says about latencies.

    Args:
        rounds: as measured.

    Returns:
        "points": one for each arm and case; "beside_litellm": see `beside`; "bars": see `bars`.
    """
    cases = cases_of(rounds)
    points = [
        _point(rounds, arm, case) for case in cases for arm in ARMS if _blocks(rounds, arm, case)
    ]
    compared = beside(rounds)
    return {"points": points, "beside_litellm": compared, "bars": bars(points, compared)}


def cases_of(rounds: Sequence[Json]) -> list[Case]:
    """What was measured, the highest rate first."""
    rates = sorted({block["rate"] for each in rounds for block in each["blocks"]}, reverse=True)
    return [
        Case(rate, kind, time) for rate in rates for kind, times in TIMES.items() for time in times
    ]


def _point(rounds: Sequence[Json], arm: str, case: Case) -> Json:
    blocks = _blocks(rounds, arm, case)
    replies = sum(len(block["lag_s"]) for block in blocks)
    cpu = [block["cpu_s"] for block in blocks if block["cpu_s"] is not None]
    found = _pooled(times_of(block, case.time) for block in blocks)
    return {
        "arm": arm,
        **case._asdict(),
        "replies": replies,
        "errors": sum(sum(block["errors"].values()) for block in blocks),
        "candidate_requests": sum(block["candidate_requests"] for block in blocks),
        "median_ms": _quantile(found, 0.5),
        "p99_ms": _quantile(found, 0.99),
        "client_lag_p99_ms": _quantile(_pooled(_lags(block) for block in blocks), 0.99),
        "cpu_ms_per_request": 1000 * sum(cpu) / replies if cpu and replies else None,
        "cpu_share": sum(cpu) / sum(block["wall_s"] for block in blocks) if cpu else None,
        "added_ms": None if arm == DIRECT else added(rounds, arm, case),
    }


def added(rounds: Sequence[Json], arm: str, case: Case, over: str = DIRECT) -> Json:
    """Milliseconds that a way takes longer than another.

    Args:
        rounds: as measured.
        arm: the way.
        case: what is timed.
        over: what it is compared with.

    Returns:
        "median", "p99" and "p99_minus_p99", each with estimate, low, high, rounds, why.
    """
    pairs = []
    for each in rounds:
        ours, theirs = (
            _pooled(times_of(block, case.time) for block in _blocks([each], name, case))
            for name in (arm, over)
        )
        if len(ours) and len(theirs):
            pairs.append((ours, theirs))
    return {
        "median": _over_rounds(pairs, 1, lambda a, d: np.median(a) - np.median(d)),
        "p99": _over_rounds(pairs, LEAST, lambda a, d: np.quantile(a, 0.99) - np.median(d)),
        "p99_minus_p99": _over_rounds(
            pairs, LEAST, lambda a, d: np.quantile(a, 0.99) - np.quantile(d, 0.99)
        ),
    }


def beside(rounds: Sequence[Json]) -> list[Json]:
    """The router minus LiteLLM: below 0 the router is faster."""
    return [
        {"arm": arm, **case._asdict(), **added(rounds, arm, case, over=LITELLM)}
        for case in cases_of(rounds)
        for arm in ROUTED
        if _blocks(rounds, arm, case) and _blocks(rounds, LITELLM, case)
    ]


def bars(points: Sequence[Json], compared: Sequence[Json]) -> list[Json]:
    """What had to be met. Met is what the upper end of the interval meets; no interval is unmet.

    Args:
        points: of `summary`. The limits count at the highest rate, all else at every rate.
        compared: the router beside LiteLLM.
    """
    found = []
    highest = max((p["rate"] for p in points), default=0.0)
    for arm in ROUTED:
        own = [p for p in points if p["arm"] == arm]
        if not own:
            continue
        loaded = [p["added_ms"] for p in own if p["rate"] == highest]
        for name, limit in (("median", MEDIAN_LIMIT_MS), ("p99", P99_LIMIT_MS)):
            what = f"{name} added under {limit:g} ms at {highest:g} requests a second"
            found.append(_bar(arm, what, _worst(each[name] for each in loaded), limit))
        litellm = [c["median"] for c in compared if c["arm"] == arm]
        found.append(_bar(arm, "median not above LiteLLM's", _worst(litellm), 0.0))
        off = max(map(_off_share, own))
        found.append(_bar(arm, "candidate off its share by at most 0.1", off, SHARE_LIMIT))
        found.append(_bar(arm, "no errors", float(sum(p["errors"] for p in own)), 0.0))
    return found


def _off_share(point: Json) -> float:
    """How far the candidate's requests are from what the router was set to."""
    share: float = point["candidate_requests"] / point["replies"]
    return abs(share - ARMS[point["arm"]].share)


def _bar(arm: str, what: str, high: float | None, limit: float) -> Json:
    met = high is not None and (high <= limit if limit == 0 else high < limit)
    return {"arm": arm, "what": what, "high": high, "limit": limit, "met": met}


def _worst(found: Iterable[Mapping[str, Any]]) -> float | None:
    """The largest upper end; None if one of them, or all, have none."""
    ends = [each["high"] for each in found]
    return None if not ends or None in ends else max(ends)


def _over_rounds(
    pairs: Sequence[tuple[Values, Values]],
    least: int,
    statistic: Callable[[Values, Values], np.floating[Any]],
) -> Json:
    enough = [(a, d) for a, d in pairs if min(len(a), len(d)) >= least]
    values = np.array([1000 * float(statistic(a, d)) for a, d in enough], np.float64)
    interval = of_sums(np.stack([values, np.ones(len(values))]), LEVEL) if len(values) else None
    why = None
    if interval is None:
        short = f"no round with {least} good replies"
        why = {0: short, 1: "one round: no interval"}.get(len(values), "not computable")
    return {
        "estimate": float(values.mean()) if len(values) else None,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "rounds": len(values),
        "why": why,
    }


def times_of(block: Json, time: str) -> Values:
    """Seconds of the good replies of a block."""
    if time == "total":
        return np.array([t for t in block["total_s"] if t is not None], np.float64)
    whole = zip(block["first_s"], block["total_s"], strict=True)
    return np.array([first for first, total in whole if total is not None], np.float64)


def _lags(block: Json) -> Values:
    return np.array(block["lag_s"], np.float64)


def _blocks(rounds: Sequence[Json], arm: str, case: Case) -> list[Json]:
    wanted = (arm, case.rate, case.kind)
    return [b for r in rounds for b in r["blocks"] if (b["arm"], b["rate"], b["kind"]) == wanted]


def _pooled(values: Iterable[Values]) -> Values:
    found = list(values)
    return np.concatenate(found) if found else np.empty(0)


def _quantile(seconds: Values, q: float) -> float | None:
    return 1000 * float(np.quantile(seconds, q)) if len(seconds) else None
