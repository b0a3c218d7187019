"""Rounds in which every way adds a given time, and their report."""

from __future__ import annotations

import numpy as np

from pipelines.route_bench import __main__ as program
from pipelines.route_bench.added import Case
from pipelines.route_bench.arms import ARMS, ROUTED
from pipelines.route_bench.measure import KINDS, Plan


def block(arm, rate, kind, times, *, cpu=None):
    return {
        "arm": arm,
        "rate": rate,
        "kind": kind,
        "at": "2026-01-02T03:04:05+00:00",
        "lag_s": [0.0001] * len(times),
        "first_s": list(times),
        "total_s": list(times),
        "errors": {},
        "wall_s": 2.0,
        "cpu_s": cpu,
        "candidate_requests": round(len(times) * ARMS[arm].share),
    }


def rounds_of(extra_ms, *, rounds=4, replies=200, rates=(100.0,)):
    """Rounds in which every way adds exactly so many milliseconds to each reply."""
    found = []
    for number in range(rounds):
        base = np.linspace(0.005, 0.006, replies) + 0.001 * number  # the machine drifts
        blocks = [
            block(arm, rate, kind, base + extra / 1000, cpu=0.1 if arm in ROUTED else None)
            for rate in rates
            for kind in KINDS
            for arm, extra in extra_ms.items()
        ]
        found.append({"round": number + 1, "blocks": blocks})
    return found


JSON, FIRST = Case(100.0, "json", "total"), Case(100.0, "stream", "first")
WHOLE = Case(100.0, "stream", "total")
MEDIAN = "median added under 1.5 ms at 100 requests a second"
P99 = "p99 added under 8 ms at 100 requests a second"
GOOD = dict(zip(ARMS, (0.0, 0.0, 0.4, 0.7, 0.5, 3.0), strict=True))


def report_of(extra_ms=GOOD, **options):
    rounds = rounds_of(extra_ms, **options)
    rates = tuple(sorted({b["rate"] for r in rounds for b in r["blocks"]}))
    return program.report_of(Plan(rounds=len(rounds), rates=rates), rounds)
