"""How long things took: latencies of requests, gaps between chunks, gaps between tokens.

They are different quantities and are kept apart. Under speculation a chunk holds several tokens, so
the gap between chunks grows while the time per token falls; only the latter says how fast text
comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from specdecode.measurement.metrics import METRICS, QUANTILES, summarise_metric
from specdecode.measurement.records import Record
from specdecode.workload.load.window import Details

SHOWN: Final = (
    "ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "output_tokens", "mean_acceptance_length",
    "acceptance_rate",
)  # fmt: skip
"""Metrics of a record that a load run reports; defined in specdecode/measurement/metrics.py."""


def of_requests(records: Sequence[Record]) -> dict[str, Any]:
    """The metrics of successful requests, each with its n."""
    found: dict[str, Any] = {}
    for name in SHOWN:
        summary = summarise_metric(METRICS[name], records)
        found[name] = {
            "n": summary.n,
            "pooled": summary.pooled,
            "request_mean": summary.request_mean,
            **summary.quantiles,
        }
    return found


def with_gaps_packed(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details with their gaps as arrays; as numbers of Python they take ten times the memory.

    `token_gaps_s` becomes [n, 2].
    """
    tokens = details["token_gaps_s"]
    return {
        **details,
        "chunk_gaps_s": np.array(details["chunk_gaps_s"], np.float64),
        "token_gaps_s": None if tokens is None else np.array(tokens, np.float64).reshape(-1, 2),
    }


def of_gaps(details: Sequence[Details]) -> dict[str, Any]:
    """Gaps within successful replies, pooled over them.

    `itl_s`: latency between tokens. The gap before a chunk is shared among the tokens it holds, and
    each token counts once. Of replies in which the server told the tokens of every chunk; n 0 when
    there is none.
    `chunk_gap_s`: between chunks with output, whatever they hold.
    """
    good = [d for d in details if d["status"] == "ok"]
    gaps = np.concatenate([np.empty(0), *(d["chunk_gaps_s"] for d in good)])
    known = (d["token_gaps_s"] for d in good if d["token_gaps_s"] is not None)
    told = np.concatenate([np.empty((0, 2)), *known])
    itl = np.repeat(told[:, 0], told[:, 1].astype(int))
    return {"itl_s": spread(itl), "chunk_gap_s": spread(gaps)}


def of_client(details: Sequence[Details]) -> dict[str, Any]:
    """What the client did: its lag behind the schedule, waits for a slot, tokens by chunk."""
    return {
        "lag_s": spread([d["lag_s"] for d in details if d["lag_s"] is not None]),
        "queued_s": spread([d["queued_s"] for d in details if d["queued_s"] is not None]),
        "connections_closed_while_idle": sum(d.get("asked_again", False) for d in details),
    }


def spread(values: Any) -> dict[str, float | int | None]:
    """n, mean, quantiles and maximum; all None but n when there is nothing."""
    numbers = np.asarray(values, dtype=np.float64)
    if not numbers.size:
        return {"n": 0, "mean": None, **dict.fromkeys(QUANTILES), "max": None}
    return {
        "n": int(numbers.size),
        "mean": float(numbers.mean()),
        **{name: float(np.quantile(numbers, q)) for name, q in QUANTILES.items()},
        "max": float(numbers.max()),
    }
