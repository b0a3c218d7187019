"""A load run over time: how many requests were in flight, came and ended, bin by bin."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Details = Mapping[str, Any]
Floats = NDArray[np.float64]

MOST_BINS = 60


def column(details: Sequence[Details], name: str) -> Floats:
    """A detail of all requests; NaN where it is missing."""
    return np.array(
        [np.nan if d[name] is None else float(d[name]) for d in details], dtype=np.float64
    )


def in_flight(sent: Floats, ended: Floats, edges: Floats) -> Floats:
    """Time-weighted mean number of requests between sending and end, of each bin; [bins]."""
    found = np.zeros(len(edges) - 1)
    for index, (low, high) in enumerate(itertools.pairwise(edges)):
        overlap = np.minimum(ended, high) - np.maximum(sent, low)
        found[index] = np.clip(overlap, 0.0, None).sum() / (high - low)
    return found


def peak_in_flight(sent: Floats, ended: Floats) -> int:
    """Most requests at once; one that ends when another is sent makes room for it."""
    times = np.concatenate([sent, ended])
    steps = np.concatenate([np.ones(len(sent), int), -np.ones(len(ended), int)])
    order = np.lexsort((steps, times))
    return int(steps[order].cumsum().max(initial=0))


def over_time(details: Sequence[Details], duration_s: float) -> list[dict[str, Any]]:
    """The run in at most 60 bins of equal length, whole seconds where the run is long enough.

    Tokens count in the bin in which their reply ended.
    """
    if not details or duration_s <= 0:
        return []
    width = max(1.0, float(np.ceil(duration_s / MOST_BINS))) if duration_s > 10 else duration_s / 10
    edges = np.arange(0.0, duration_s + width, width)
    sent, ended, due = (column(details, name) for name in ("sent_s", "ended_s", "due_s"))
    reached = ~np.isnan(sent)
    flying = in_flight(sent[reached], ended[reached], edges)
    good = np.array([d["status"] == "ok" for d in details])
    tokens = np.nan_to_num(column(details, "output_tokens"))
    last = len(edges) - 2
    place, arrived = (np.clip((times // width).astype(int), 0, last) for times in (ended, due))
    return [
        {
            "from_s": round(float(edges[i]), 3),
            "to_s": round(float(edges[i + 1]), 3),
            "in_flight": round(float(flying[i]), 3),
            "due": int((arrived == i).sum()),
            "ok": int((good & (place == i)).sum()),
            "not_ok": int((~good & (place == i)).sum()),
            "output_tokens_of_replies_ended": int(tokens[good & (place == i)].sum()),
        }
        for i in range(last + 1)
    ]
