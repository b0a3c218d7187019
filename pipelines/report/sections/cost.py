"""What it costs: the time of each stage, the work of the target, memory, money and energy."""

from __future__ import annotations

from pipelines.report.charts.time_budget import PARTS, time_budget
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.words import Words

# The stages of the decoding loop and the part of a row's clock that holds each.
STAGES = (
    ("draft", "draft"),
    ("score", "verify"),
    ("accept", "verify"),
    ("resample", "verify"),
    ("continue", "other"),
)


def cost_section(inputs: ReportInputs, words: Words) -> Section:
    """Time budget by arm and stage, token amplification, failures, memory, cost and energy."""
    arms = inputs.overall["arms"]
    chart = time_budget(
        {arm: milliseconds_per_token(arms[arm]["metrics"]) for arm in inputs.arms}, words
    )
    peak = inputs.metrics.get("peak_rss_bytes")
    memory = words.number(None if peak is None else peak / 2**20, 0, " MiB")
    return Section(
        "cost",
        words("cost.title"),
        "",
        [chart],
        [_stages(inputs, words), _work(inputs, words), *_money(inputs, words)],
        [
            words("cost.memory", memory=memory),
            *([] if inputs.sweep else [words("cost.no_money")]),
        ],
    )


def _work(inputs: ReportInputs, words: Words) -> Table:
    arms, rows = inputs.overall["arms"], []
    for arm in inputs.arms:
        metrics = arms[arm]["metrics"]
        rows.append(
            [
                arm,
                words.number(metrics["output_tokens_per_s"]["pooled"], 1),
                words.number(metrics["target_tokens_per_output_token"]["pooled"]),
                *(words.share(metrics[f"{part}_share"]["pooled"]) for part in PARTS),
                words("of", part=arms[arm]["errors"], whole=arms[arm]["requests"]),
            ]
        )
    parts = [words("cost.part_time", part=words(f"part.{part}")) for part in PARTS]
    return Table(
        words("cost.caption"),
        (words("arm"), words("cost.speed"), words("cost.target"), *parts, words("cost.failed")),
        rows,
        numeric=range(1, 7),
        note=words("cost.note"),
    )


def _stages(inputs: ReportInputs, words: Words) -> Table:
    arms = inputs.overall["arms"]
    rows = []
    for index, (stage, part) in enumerate(STAGES, start=1):
        cells = []
        for arm in inputs.candidates:
            milliseconds = milliseconds_per_token(arms[arm]["metrics"])[part]
            shared = stage in ("accept", "resample")
            cells.append(words("stage.with_score") if shared else words.number(milliseconds, 2))
        rows.append([f"{index}. {words(f'stage.{stage}')}", words(f"stage.{stage}_does"), *cells])
    return Table(
        words("stage.caption"),
        (words("stage.stage"), words("stage.does"), *inputs.candidates),
        rows,
        numeric=range(2, 2 + len(inputs.candidates)),
        note=words("stage.note"),
    )


def _money(inputs: ReportInputs, words: Words) -> list[Table]:
    if inputs.sweep is None:
        return []
    rows = [
        [
            str(point["arm"]),
            str(point["concurrency"]),
            words.number(point.get("cost_per_million_useful_tokens")),
            words.number(point.get("cost_per_request_within_slo"), 6),
            words.number(point.get("joules_per_useful_token")),
        ]
        for point in inputs.sweep.get("points") or ()
    ]
    keys = ("arm", "load.x", "money.million", "money.request", "money.joules")
    columns = [words(key) for key in keys]
    note = words("money.note")
    return [Table(words("money.caption"), columns, rows, numeric=range(1, 5), note=note)]


def milliseconds_per_token(metrics: Json) -> dict[str, float | None]:
    """Each part's milliseconds per visible token; None where share or throughput is unknown."""
    throughput = metrics["output_tokens_per_s"]["pooled"]
    parts: dict[str, float | None] = {}
    for part in PARTS:
        fraction = metrics[f"{part}_share"]["pooled"]
        known = fraction is not None and throughput
        parts[part] = 1000.0 * fraction / throughput if known else None
    return parts
