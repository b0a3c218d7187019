"""Do the numbers of one row contradict each other? Then some of them were not measured."""

from __future__ import annotations

import math

from specdecode.measurement.metrics import METRICS
from specdecode.measurement.records import Record


def agrees(record: Record) -> bool:
    """Histogram against counts, counts against each other, times against each other, end."""
    steps, accepted, histogram = record.steps, record.accepted, record.acceptance_histogram
    ttft, e2e = record.ttft_s, record.e2e_s
    tpot = METRICS["tpot_s"].value(record)
    if histogram is not None and steps is not None and histogram and sum(histogram) != steps:
        return False
    if (
        histogram is not None
        and accepted is not None
        and (sum(i * count for i, count in enumerate(histogram)) != accepted)
    ):
        return False
    if record.drafted is not None and accepted is not None and accepted > record.drafted:
        return False
    if ttft is not None and e2e is not None and ttft > e2e:
        return False
    if not _ended_as_told(record):
        return False
    return (
        record.tpot_s is None
        or tpot is None
        or math.isclose(record.tpot_s, tpot, rel_tol=1e-3, abs_tol=1e-6)
    )


def _ended_as_told(record: Record) -> bool:
    """The reply is no longer than asked for, and one cut by its length is no shorter.

    A reply cut by the end of the context is short as well, but prompts that leave no room for the
    whole reply are refused when they are compiled.
    """
    asked, found = record.sampling.get("max_tokens"), record.output_tokens
    if asked is None or found is None:
        return True
    if not isinstance(asked, int):
        return False
    return found == asked if record.finish_reason == "length" else found <= asked


def asks_greedy(record: Record) -> bool:
    """Whether the request asked for greedy decoding; no temperature means the default, 1."""
    return bool(record.sampling.get("temperature", 1.0) == 0)
