"""Requests that met every stated objective, out of all that should have been answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdecode.measurement.metrics import METRICS
from specdecode.measurement.records import Record

_METRIC = {"ttft": "ttft_s", "tpot": "tpot_s", "e2e": "e2e_s"}


def goodput(
    records: Sequence[Record],
    cancelled: int,
    slo: Mapping[str, float],
    duration_s: float | None,
) -> dict[str, Any] | None:
    """Count, share with its interval, and rate of good requests; None without objectives.

    A request is good when it succeeded and meets all objectives. A failed one is not good. A reply
    of at most one token has no time per token and meets that objective. One whose tokens the server
    did not count is not judged and not good, and `unjudged` says how many there are.

    Args:
        records: of all requests.
        cancelled: how many of them the client closed on purpose; they are left out.
        slo: seconds by ttft, tpot, e2e.
        duration_s: of the run; None gives no rate.
    """
    if not slo:
        return None
    from specdecode.statistics.binomial import proportion_interval

    judged = [meets(record, slo) for record in records]
    good = sum(found is True for found in judged)
    total = len(records) - cancelled
    interval = proportion_interval(good, total)
    return {
        "slo": dict(slo),
        "n": total,
        "good": good,
        "unjudged": sum(found is None for found in judged),
        "share": None if interval is None else interval.estimate,
        "share_low": None if interval is None else interval.low,
        "share_high": None if interval is None else interval.high,
        "good_per_s": good / duration_s if duration_s else None,
        "met": {
            name: sum(meets(record, {name: limit}) is True for record in records)
            for name, limit in slo.items()
        },
    }


def meets(record: Record, slo: Mapping[str, float]) -> bool | None:
    """Whether a request met all objectives; None when one of them cannot be judged."""
    if record.error is not None:
        return False
    found: list[bool | None] = []
    for name, limit in slo.items():
        value = METRICS[_METRIC[name]].value(record)
        few = record.output_tokens is not None and record.output_tokens < 2
        if value is not None:
            found.append(value <= limit)
        else:
            found.append(True if name == "tpot" and few else None)
    if False in found:
        return False
    return None if None in found else True
