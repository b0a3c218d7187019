"""How much of the draft the target keeps."""

from __future__ import annotations

from itertools import pairwise

from pipelines.report.charts.acceptance import by_position, histogram
from pipelines.report.estimate import interval, number, read_estimate, share
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table


def acceptance_section(inputs: ReportInputs) -> Section:
    """Histogram, acceptance by position, and the averages with their counts."""
    arms = inputs.overall["arms"]
    positions = {arm: arms[arm]["acceptance_by_position"] for arm in inputs.candidates}
    charts = [
        histogram({arm: step_counts(found) for arm, found in positions.items()}),
        by_position(
            {arm: [place["conditional"] for place in found] for arm, found in positions.items()},
            {arm: [place["unconditional"] for place in found] for arm, found in positions.items()},
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
                number(metrics["mean_acceptance_length"]["pooled"]),
                interval(length.low, length.high),
                number(metrics["mean_acceptance_length"].get("p50")),
                share(metrics["acceptance_rate"]["pooled"]),
                number(steps, 0),
                str(metrics["mean_acceptance_length"]["n"]),
            ]
        )
    table = Table(
        "Acceptance by arm",
        (
            "arm",
            "tokens per step",
            "interval",
            "median request",
            "accepted of drafted",
            "steps",
            "requests",
        ),
        rows,
        numeric=range(1, 7),
        note="Tokens per step includes the bonus or resampled token, so it lies between 1 and the "
        "draft length plus 1. The accepted share falls with the draft length by arithmetic: do not "
        "compare it across draft lengths.",
    )
    return Section(
        "acceptance",
        "Acceptance",
        "Acceptance explains speed; it proves nothing. A faulty verifier accepts more. Near its "
        "end a reply can take fewer tokens than a block holds; those steps draft less, or nothing, "
        "and count here like all others.",
        charts,
        [table],
    )


def step_counts(positions: list[Json]) -> list[int]:
    """Steps by number of accepted tokens 0..G, from acceptance by position."""
    if not positions:
        return []
    steps = int(positions[0]["steps"])
    reached = [steps, *(round(place["unconditional"] * steps) for place in positions), 0]
    return [here - after for here, after in pairwise(reached)]
