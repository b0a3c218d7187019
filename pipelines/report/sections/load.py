"""Whether it still pays when requests share the machine: the sweep's crossover."""

from __future__ import annotations

from pipelines.report.charts.load import load_curve
from pipelines.report.estimate import Estimate
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Cell, Section, Table
from pipelines.report.words import Words

_COLUMNS = ("arm", "load.pays", "load.loses", "load.undecided", "load.estimate")


def load_section(inputs: ReportInputs, words: Words) -> Section:
    """Ratio to plain decoding by concurrency, crossovers, recommended draft lengths."""
    title, sweep = words("load.title"), inputs.sweep
    if sweep is None:
        return Section("load", title, words("load.none"))
    curves: dict[str, list[tuple[int, Estimate]]] = {}
    for point in sweep.get("points") or ():
        ratio = point.get("throughput_over_plain")
        if ratio is not None:
            item = Estimate(ratio.get("estimate"), ratio.get("low"), ratio.get("high"))
            curves.setdefault(str(point["arm"]), []).append((int(point["concurrency"]), item))
    rows: list[list[Cell]] = [
        [
            str(found["arm"]),
            words.label("none_or", str(found.get("pays_up_to"))),
            words.label("none_or", str(found.get("does_not_pay_from"))),
            _list(found.get("undecided"), words),
            _estimate(found, words),
        ]
        for found in sweep.get("crossovers") or ()
    ]
    crossover = Table(
        words("load.crossover"),
        [words(key) for key in _COLUMNS],
        rows,
        numeric=(1, 2, 4),
        note=words("load.crossover_note"),
    )
    lead = words("load.lead", status=words.label("sweep", str(sweep.get("status"))))
    tables = [crossover, *_recommended(sweep, words)]
    return Section("load", title, lead, [load_curve(curves, words)], tables)


def _estimate(found: Json, words: Words) -> str:
    estimate = found.get("estimate") or {}
    value, low, high = (estimate.get(name) for name in ("concurrency", "low", "high"))
    if value is None:
        return words("none")
    ends = "" if low is None and high is None else f" [{words.figures(low, high)}]"
    return words.figure(value) + ends


def _list(loads: object, words: Words) -> str:
    found = [str(load) for load in loads] if isinstance(loads, list) else []
    return words("list_comma").join(found) or words("none")


def _recommended(sweep: Json, words: Words) -> list[Table]:
    rows = [
        [
            str(chosen["concurrency"]),
            str(chosen["arm"]),
            str(chosen["num_speculative_tokens"]),
            str(each.get("rule") or "–"),
        ]
        for each in sweep.get("recommendations") or ()
        for chosen in each.get("by_measured_load") or ()
    ]
    if not rows:
        return []
    columns = [words(key) for key in ("load.x", "arm", "load.length", "load.rule")]
    return [Table(words("load.recommended"), columns, rows, numeric=(2,))]
