"""How much of the draft the target keeps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pipelines.report.charts.acceptance import by_position, histogram
from pipelines.report.charts.acceptance_time import Stretch, over_time
from pipelines.report.estimate import Estimate, read_estimate
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.words import Words
from specdecode.measurement.intervals import metric_interval
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.records import Record

STRETCHES = 10
_COLUMNS = ("interval", "acceptance.median", "acceptance.rate", "acceptance.steps", "requests")


def acceptance_section(inputs: ReportInputs, words: Words) -> Section:
    """Histogram, acceptance by position and over the run, and the averages with their counts."""
    arms = inputs.overall["arms"]
    positions = {arm: arms[arm]["acceptance_by_position"] for arm in inputs.candidates}
    level = float(inputs.metrics.get("level") or 0.95)
    charts = [
        histogram({arm: step_counts(found) for arm, found in positions.items()}, words),
        by_position(
            {arm: [place["conditional"] for place in found] for arm, found in positions.items()},
            {arm: [place["unconditional"] for place in found] for arm, found in positions.items()},
            words,
        ),
        over_time(
            {
                arm: stretches([r for r in inputs.records if r.arm == arm], level)
                for arm in inputs.candidates
            },
            words,
        ),
    ]
    rows = []
    for arm in inputs.candidates:
        metrics = arms[arm]["metrics"]
        length = read_estimate(arms[arm].get("mean_acceptance_length_interval"))
        steps = positions[arm][0]["steps"] if positions[arm] else None
        rows.append(
            [
                arm,
                words.number(metrics["mean_acceptance_length"]["pooled"]),
                words.interval(length.low, length.high),
                words.number(metrics["mean_acceptance_length"].get("p50")),
                words.share(metrics["acceptance_rate"]["pooled"]),
                words.number(steps, 0),
                str(metrics["mean_acceptance_length"]["n"]),
            ]
        )
    table = Table(
        words("acceptance.caption"),
        [words(key) for key in ("arm", "tokens_per_step", *_COLUMNS)],
        rows,
        numeric=range(1, 7),
        note=words("acceptance.note"),
    )
    lead = words("acceptance.lead")
    return Section("acceptance", words("acceptance.title"), lead, charts, [table])


def stretches(rows: Sequence[Record], level: float) -> list[Stretch]:
    """Tokens per step of consecutive stretches of the run, each of about as many requests.

    Args:
        rows: of one arm, in any order; those without a place in the order are left out.
        level: of the intervals over prompts.

    Returns:
        (first place, last place, estimate) of at most `STRETCHES` stretches.
    """
    metric = METRICS["mean_acceptance_length"]
    told = sorted(
        (row for row in rows if row.order_index is not None and metric.parts(row) is not None),
        key=lambda row: (row.order_index or 0, row.request_id),
    )
    number = min(STRETCHES, len(told))
    found: list[Stretch] = []
    for index in range(number):
        part = told[len(told) * index // number : len(told) * (index + 1) // number]
        first, last = part[0].order_index or 0, part[-1].order_index or 0
        interval = metric_interval(metric, part, level=level)
        if interval is not None:
            # No block yields less than one token, however far Student's t reaches.
            low = max(interval.low, 1.0)
            estimate = Estimate(interval.estimate, low, interval.high, interval.n)
        else:
            above, below = (sum(p) for p in zip(*map(metric.parts, part), strict=True))
            estimate = Estimate(above / below, n=len({row.prompt_id for row in part}))
        found.append((first, last, estimate))
    return found


def step_counts(positions: list[Json]) -> list[int]:
    """Steps by number of accepted tokens 0..G, from acceptance by position."""
    if not positions:
        return []
    steps = int(positions[0]["steps"])
    reached = [steps, *(round(place["unconditional"] * steps) for place in positions), 0]
    return [here - after for here, after in pairwise(reached)]
