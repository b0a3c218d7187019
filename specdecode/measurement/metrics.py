"""Every metric, defined once, as a numerator and a denominator per request.

Pooled over requests a metric is Σ numerator / Σ denominator, so each token (or step) weighs the
same; request-weighted it is the mean of the requests' own ratios. For plain quantities such as
TTFT the denominator is 1 and the two agree. A request that failed, or lacks an input, has no value
(null) and enters neither sum; `Summary.n` says how many did.

A definition serves single records and whole columns alike: it is arithmetic on numbers or arrays,
in which a missing value is NaN, so whatever is computed from one is missing too.

The table in docs/metrics.md is generated from `METRICS` and compared with it by a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from specdecode.measurement.arrays import BoolArray, FloatArray
from specdecode.measurement.records import Record

Parts = tuple[float, float]
QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


class Numbers(Protocol):
    """Fields of a record as numbers: of one request a float, of many an array; NaN is missing."""

    def __getattr__(self, name: str) -> Any: ...


class _OfRecord:
    def __init__(self, record: Record) -> None:
        self._record = record

    def __getattr__(self, name: str) -> float:
        value = getattr(self._record, name)
        return math.nan if value is None else value


@dataclass(frozen=True)
class Metric:
    """One definition.

    Args:
        name: key in reports and plans; carries the unit.
        better: which direction is an improvement.
        definition: for people; states numerator and denominator.
        formula: (numerator, denominator) of successful requests.
    """

    name: str
    better: Literal["higher", "lower", "neither"]
    definition: str
    formula: Callable[[Numbers], tuple[Any, Any]]

    def parts(self, record: Record) -> Parts | None:
        """Numerator and denominator, or None: request failed, input missing, denominator 0."""
        if record.error is not None:
            return None
        top, bottom = self.formula(_OfRecord(record))
        return (top, bottom) if bottom > 0 and not math.isnan(top) else None

    def value(self, record: Record) -> float | None:
        """The request's own value, or None."""
        parts = self.parts(record)
        return None if parts is None else parts[0] / parts[1]

    def columns(self, numbers: Numbers) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Numerators, denominators, and which requests have a value; all [n].

        Args:
            numbers: float64 columns [n], all NaN for requests that failed.
        """
        top, bottom = np.broadcast_arrays(*self.formula(numbers))
        return top, bottom, (bottom > 0) & ~np.isnan(top)


@dataclass(frozen=True)
class Summary:
    """A metric over many requests. All values are None when n is 0.

    Args:
        n: requests that have a value.
        pooled: Σ numerator / Σ denominator.
        request_mean: mean over requests.
        quantiles: p50, p90, p95, p99 over requests, linear interpolation between order statistics.
    """

    n: int
    pooled: float | None
    request_mean: float | None
    quantiles: dict[str, float | None]


def summarise_metric(metric: Metric, records: Iterable[Record]) -> Summary:
    """One metric over the requests that have it."""
    parts = [found for record in records if (found := metric.parts(record)) is not None]
    if not parts:
        return Summary(0, None, None, dict.fromkeys(QUANTILES))
    both = np.asarray(parts, dtype=np.float64)
    own = both[:, 0] / both[:, 1]
    return Summary(
        n=len(parts),
        pooled=float(both[:, 0].sum() / both[:, 1].sum()),
        request_mean=float(own.mean()),
        quantiles={name: float(np.quantile(own, q)) for name, q in QUANTILES.items()},
    )


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("ttft_s", "lower", "Time to first token: seconds from the start of the request "
               "until its first token is there.", lambda r: (r.ttft_s, 1.0)),
        Metric("tpot_s", "lower", "Time per output token after the first: (e2e − ttft) / "
               "(output tokens − 1), in seconds. Null with fewer than two tokens.",
               lambda r: (r.e2e_s - r.ttft_s, r.output_tokens - 1)),
        Metric("e2e_s", "lower", "Seconds from the start of the request until its last token.",
               lambda r: (r.e2e_s, 1.0)),
        Metric("output_tokens_per_s", "higher", "Output throughput of one stream: output tokens / "
               "e2e seconds. Includes the time to the first token.",
               lambda r: (r.output_tokens, r.e2e_s)),
        Metric("output_tokens", "neither", "Visible tokens per reply.",
               lambda r: (r.output_tokens, 1.0)),
        Metric("mean_acceptance_length", "higher", "Tokens per draft-and-verify step, bonus or "
               "resampled token INCLUDED: 1 + accepted / steps, between 1 and γ + 1. When "
               "decoding plainly 1, or null if the engine counts no steps there. Other names: "
               "block efficiency, mean accepted tokens.",
               lambda r: (r.steps + r.accepted, r.steps)),
        Metric("acceptance_rate", "neither", "Accepted draft tokens / proposed draft tokens, those "
               "after a rejection counted as proposed. Falls with γ by arithmetic, so it is never "
               "compared across draft lengths or gated on. Null without proposals.",
               lambda r: (r.accepted, r.drafted)),
        Metric("output_tokens_per_step", "higher", "Visible tokens / steps. Differs from the mean "
               "acceptance length by the first token, which the prompt's own pass gives, and where "
               "a stop or the length limit cut off the last block.",
               lambda r: (r.output_tokens, r.steps)),
        Metric("target_tokens_per_output_token", "lower", "Token amplification: token rows the "
               "target computed after prefill / visible tokens. Just under 1 when decoding "
               "plainly (the prompt's pass gives the first token), at worst γ + 1.",
               lambda r: (r.target_tokens, r.output_tokens)),
        Metric("draft_share", "neither", "Share of e2e time spent drafting.",
               lambda r: (r.draft_s, r.e2e_s)),
        Metric("verify_share", "neither", "Share of e2e time spent in target passes and the "
               "acceptance rule.", lambda r: (r.verify_s, r.e2e_s)),
        Metric("other_share", "neither", "Share of e2e time spent in neither of the two.",
               lambda r: (r.other_s, r.e2e_s)),
        Metric("quality", "higher", "Score of the prompt's programmatic checker, 0 to 1. Null for "
               "prompts without a checker, which do not enter.", lambda r: (r.quality, 1.0)),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Position:
    """Acceptance at one position of the drafted block.

    Args:
        position: 1-based.
        steps: steps this is computed from.
        unconditional: share of steps that accepted at least `position` tokens.
        conditional: the same among steps that accepted at least `position − 1`; None when no
            step got that far.
    """

    position: int
    steps: int
    unconditional: float
    conditional: float | None


def acceptance_by_position(records: Iterable[Record]) -> list[Position]:
    """Per-position acceptance from the histograms; empty when no step is known.

    1 + Σ unconditional equals the pooled mean acceptance length.
    """
    histograms = [
        r.acceptance_histogram for r in records if r.error is None and r.acceptance_histogram
    ]
    total = np.zeros(max(map(len, histograms), default=0), dtype=np.int64)
    for histogram in histograms:
        total[: len(histogram)] += histogram
    steps = int(total.sum())
    if steps == 0:
        return []
    reached = total[::-1].cumsum()[::-1]  # reached[i]: steps with at least i accepted
    return [
        Position(i, steps, float(reached[i] / steps), _ratio(int(reached[i]), int(reached[i - 1])))
        for i in range(1, len(total))
    ]


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None


def error_rate(records: Sequence[Record]) -> float | None:
    """Requests that failed / requests; None without requests."""
    return _ratio(sum(r.error is not None for r in records), len(records))


def finish_reasons(records: Iterable[Record]) -> dict[str, int]:
    """How many requests ended for which reason; failed ones under 'error'."""
    counts: dict[str, int] = {}
    for record in records:
        reason = "error" if record.error is not None else record.finish_reason or "unknown"
        counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items()))


def peak_memory_bytes(records: Iterable[Record]) -> int | None:
    """Highest resident memory seen, bytes.

    All arms run in one process, so this is a property of the run and not of one arm.
    """
    return max((r.peak_rss_bytes for r in records if r.peak_rss_bytes is not None), default=None)
