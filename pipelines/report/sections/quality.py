"""Whether the answers are as good, by the prompts' own checkers."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.report.charts.forest import forest
from pipelines.report.estimate import MISSING, Estimate, read_estimate
from pipelines.report.inputs import ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.words import Words
from specdecode.measurement.intervals import difference_interval, metric_interval
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.pairing import pair
from specdecode.measurement.records import Record
from specdecode.statistics.interval import Interval


def quality_section(inputs: ReportInputs, words: Words) -> Section:
    """Checker scores by arm and by kind of checker, and paired differences to plain decoding."""
    by_kind = _by_kind(inputs)
    groups = [
        (label, {arm: _score(rows, arm, inputs) for arm in inputs.arms}) for label, rows in by_kind
    ]
    chart = forest(
        "quality",
        words("quality.chart"),
        groups,
        words,
        quantity=words("quality.quantity"),
        caption=words("quality.caption"),
    )
    table_rows = [
        [label, arm, *_difference_cells(rows, arm, inputs, words)]
        for label, rows in by_kind
        for arm in inputs.candidates
    ]
    overall = [
        [words("quality.all"), arm, *_overall_cells(inputs, arm, words)]
        for arm in inputs.candidates
    ]
    keys = ("quality.checker", "arm", "quality.difference", "interval", "prompts")
    table = Table(
        words("quality.differences", baseline=inputs.baseline),
        [words(key) for key in keys],
        overall + table_rows,
        numeric=(2, 3, 4),
    )
    tables = [table, _scores(inputs, words)]
    return Section("quality", words("quality.title"), words("quality.lead"), [chart], tables)


def _by_kind(inputs: ReportInputs) -> list[tuple[str, list[Record]]]:
    measured = {record.prompt_id for record in inputs.records}
    kinds = sorted({kind for prompt, kind in inputs.checkers.items() if prompt in measured})
    return [
        (kind, [r for r in inputs.records if inputs.checkers.get(r.prompt_id) == kind])
        for kind in kinds
    ]


def _score(rows: Sequence[Record], arm: str, inputs: ReportInputs) -> Estimate:
    own = [row for row in rows if row.arm == arm]
    return _read(metric_interval(METRICS["quality"], own, level=_level(inputs)), own)


def _read(found: Interval | None, own: Sequence[Record]) -> Estimate:
    if found is not None:
        # A mean of scores lies between 0 and 1, however far Student's t reaches.
        return Estimate(found.estimate, max(found.low, 0.0), min(found.high, 1.0), found.n)
    known = [row.quality for row in own if row.quality is not None]
    return Estimate(sum(known) / len(known), n=len(known)) if known else MISSING


def _difference_cells(
    rows: Sequence[Record], arm: str, inputs: ReportInputs, words: Words
) -> list[str]:
    found = difference_interval(
        METRICS["quality"],
        pair(rows, arm, inputs.baseline),
        level=_level(inputs),
        seed=_seed(inputs),
    )
    return _cells(read_estimate(None if found is None else found.to_json()), words)


def _overall_cells(inputs: ReportInputs, arm: str, words: Words) -> list[str]:
    return _cells(read_estimate(inputs.overall["comparisons"][arm]["quality_difference"]), words)


def _cells(found: Estimate, words: Words) -> list[str]:
    ends = words.interval(found.low, found.high, 1, scale=100.0)
    return [words.number(found.value, 1, scale=100.0), ends, str(found.n or 0)]


def _scores(inputs: ReportInputs, words: Words) -> Table:
    rows = []
    for arm in inputs.arms:
        found = inputs.overall["arms"][arm]["metrics"]["quality"]
        rows.append([arm, words.share(found["request_mean"]), str(found["n"])])
    columns = [words(key) for key in ("arm", "quality.score", "requests")]
    return Table(words("quality.mean"), columns, rows, numeric=(1, 2))


def _level(inputs: ReportInputs) -> float:
    return float(inputs.metrics.get("level") or 0.95)


def _seed(inputs: ReportInputs) -> int:
    return int(inputs.metrics.get("seed") or 0)
