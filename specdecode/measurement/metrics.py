"""Every metric, defined once, as a numerator and a denominator per request.

Pooled over requests a metric is Σ numerator / Σ denominator, so each token (or step) weighs the
same; request-weighted it is the mean of the requests' own ratios. For plain quantities such as
TTFT the denominator is 1 and the two agree. A request that failed, or lacks an input, has no value
(null) and enters neither sum; `Summary.n` says how many did.

The table in docs/metrics.md is generated from `METRICS` and compared with it by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specdecode.measurement.records import Record

Parts = tuple[float, float]
QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Metric:
    """One definition.

    Args:
        name: key in reports and plans; carries the unit.
        better: which direction is an improvement.
        definition: for people; states numerator and denominator.
        formula: (numerator, denominator) of one successful request, or None when it has no value.
    """

    name: str
    better: Literal["higher", "lower", "neither"]
    definition: str
    formula: Callable[[Record], Parts | None]

    def parts(self, record: Record) -> Parts | None:
        """Numerator and denominator, or None: request failed, input missing, denominator 0."""
        if record.error is not None:
            return None
        parts = self.formula(record)
        return None if parts is None or parts[1] <= 0 else parts

    def value(self, record: Record) -> float | None:
        """The request's own value, or None."""
        parts = self.parts(record)
        return None if parts is None else parts[0] / parts[1]


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


def _over(numerator: float | None, denominator: float | None) -> Parts | None:
    return None if numerator is None or denominator is None else (numerator, denominator)


def _tpot(record: Record) -> Parts | None:
    e2e, ttft, tokens = record.e2e_s, record.ttft_s, record.output_tokens
    if e2e is None or ttft is None or tokens is None or tokens <= 1:
        return None
    return (e2e - ttft, tokens - 1)


def _acceptance_length(record: Record) -> Parts | None:
    if record.steps is None or record.accepted is None:
        return None
    return (record.steps + record.accepted, record.steps)


def _share(name: Literal["draft_s", "verify_s", "other_s"]) -> Callable[[Record], Parts | None]:
    return lambda record: _over(getattr(record, name), record.e2e_s)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("ttft_s", "lower", "Time to first token: seconds from the start of the request "
               "until its first token is there.", lambda r: _over(r.ttft_s, 1.0)),
        Metric("tpot_s", "lower", "Time per output token after the first: (e2e − ttft) / "
               "(output tokens − 1), in seconds. Null with fewer than two tokens.", _tpot),
        Metric("e2e_s", "lower", "Seconds from the start of the request until its last token.",
               lambda r: _over(r.e2e_s, 1.0)),
        Metric("output_tokens_per_s", "higher", "Output throughput of one stream: output tokens / "
               "e2e seconds. Includes the time to the first token.",
               lambda r: _over(r.output_tokens, r.e2e_s)),
        Metric("output_tokens", "neither", "Visible tokens per reply.",
               lambda r: _over(r.output_tokens, 1.0)),
        Metric("mean_acceptance_length", "higher", "Tokens per draft-and-verify step, bonus or "
               "resampled token INCLUDED: 1 + accepted / steps, between 1 and γ + 1. When "
               "decoding plainly 1, or null if the engine counts no steps there. Other names: "
               "block efficiency, mean accepted tokens.",
               _acceptance_length),
        Metric("acceptance_rate", "neither", "Accepted draft tokens / proposed draft tokens, those "
               "after a rejection counted as proposed. Falls with γ by arithmetic, so it is never "
               "compared across draft lengths or gated on. Null without proposals.",
               lambda r: _over(r.accepted, r.drafted)),
        Metric("output_tokens_per_step", "higher", "Visible tokens / steps. Differs from the mean "
               "acceptance length by the first token, which the prompt's own pass gives, and where "
               "a stop or the length limit cut off the last block.",
               lambda r: _over(r.output_tokens, r.steps)),
        Metric("target_tokens_per_output_token", "lower", "Token amplification: token rows the "
               "target computed after prefill / visible tokens. Just under 1 when decoding "
               "plainly (the prompt's pass gives the first token), at worst γ + 1.",
               lambda r: _over(r.target_tokens, r.output_tokens)),
        Metric("draft_share", "neither", "Share of e2e time spent drafting.", _share("draft_s")),
        Metric("verify_share", "neither", "Share of e2e time spent in target passes and the "
               "acceptance rule.", _share("verify_s")),
        Metric("other_share", "neither", "Share of e2e time spent in neither of the two.",
               _share("other_s")),
        Metric("quality", "higher", "Score of the prompt's programmatic checker, 0 to 1. Null for "
               "prompts without a checker, which do not enter.", lambda r: _over(r.quality, 1.0)),
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
