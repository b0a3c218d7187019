"""What it costs: the time of each stage, the work of the target, memory."""

from __future__ import annotations

from pipelines.report.charts.time_budget import PARTS, time_budget
from pipelines.report.estimate import number, share
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table


def cost_section(inputs: ReportInputs) -> Section:
    """Time budget by arm, token amplification, failures, peak memory."""
    arms = inputs.overall["arms"]
    chart = time_budget({arm: milliseconds_per_token(arms[arm]["metrics"]) for arm in inputs.arms})
    rows = []
    for arm in inputs.arms:
        metrics = arms[arm]["metrics"]
        rows.append(
            [
                arm,
                number(metrics["output_tokens_per_s"]["pooled"], 1),
                number(metrics["target_tokens_per_output_token"]["pooled"]),
                *(share(metrics[f"{part}_share"]["pooled"]) for part in PARTS),
                f"{arms[arm]['errors']} of {arms[arm]['requests']}",
            ]
        )
    table = Table(
        "Work and failures by arm",
        (
            "arm",
            "tokens per second",
            "target tokens per visible token",
            *(f"{part} time" for part in PARTS),
            "failed requests",
        ),
        rows,
        numeric=range(1, 7),
        note="Target tokens per visible token is the token amplification: what a batched or "
        "power-limited service pays for even when a single stream gets faster.",
    )
    peak = inputs.metrics.get("peak_rss_bytes")
    memory = number(None if peak is None else peak / 2**20, 0, " MiB")
    return Section(
        "cost",
        "Time, work and memory",
        "",
        [chart],
        [table],
        [
            f"Peak resident memory: {memory}. All arms ran in one process, so it is the run's and "
            "not an arm's."
        ],
    )


def milliseconds_per_token(metrics: Json) -> dict[str, float | None]:
    """Each part's milliseconds per visible token; None where share or throughput is unknown."""
    throughput = metrics["output_tokens_per_s"]["pooled"]
    parts: dict[str, float | None] = {}
    for part in PARTS:
        fraction = metrics[f"{part}_share"]["pooled"]
        known = fraction is not None and throughput
        parts[part] = 1000.0 * fraction / throughput if known else None
    return parts
