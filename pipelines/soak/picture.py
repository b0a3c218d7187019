"""Memory, files and queue of a soaked server over time, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.soak.rule import MB, WARM_UP, Series
from pipelines.soak.sampling import Sample

INK, GRID, PALE = "#1f2933", "#d5dbe1", "#eef1f4"
FIRST, SECOND, THIRD = "#1769aa", "#8895a3", "#c2571a"


def draw(samples: Sequence[Sample], series: Series, report: Mapping[str, Any], path: Path) -> None:
    """Write the picture.

    Args:
        samples: of the run.
        series: of its planned length.
        report: content of soak.json.
        path: where the PNG goes.
    """
    minutes = [sample.t_s / 60 for sample in samples]
    with mpl.rc_context({"font.size": 9, "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(9, 7.5), layout="constrained")
        memory, counts, queue = figure.subplots(3, 1, sharex=True)
        memory.plot(minutes, [s.rss_bytes / MB for s in samples], color=SECOND, label="RSS")
        memory.plot(minutes, [s.uss_bytes / MB for s in samples], color=FIRST, label="USS (judged)")
        if any(s.kv_bytes for s in samples):
            memory.plot(minutes, _mb([s.kv_bytes for s in samples]), color=THIRD, label="KV cache")
        counts.plot(minutes, [s.fds for s in samples], color=FIRST, label="open files")
        counts.plot(minutes, [s.threads for s in samples], color=THIRD, label="threads")
        queue.plot(minutes, _known([s.running for s in samples]), color=FIRST, label="decoded")
        queue.plot(minutes, _known([s.waiting for s in samples]), color=THIRD, label="waiting")
        for axis, unit in ((memory, "MB"), (counts, "number"), (queue, "replies")):
            _plain(axis, unit, WARM_UP * series.planned_s / 60)
        queue.set_xlabel("minutes of load (grey: warm-up, not judged)")
        figure.suptitle(_title(report), fontsize=10, fontweight="bold")
        figure.savefig(path, dpi=100)


def _title(report: Mapping[str, Any]) -> str:
    plan, found = report["plan"], report["slope_mb_per_hour"]
    verdict = "passed" if report["passed"] else "failed"
    growth = "too little to judge"
    if found is not None:
        growth = f"USS {found[0]:+.1f} MB/h (95 %: {found[1]:+.1f} to {found[2]:+.1f})"
    return f"Soak {verdict}: {growth}, {plan['minutes']:g} min, {plan['concurrency']} clients"


def _plain(axis: Axes, unit: str, warm_up: float) -> None:
    axis.axvspan(0, warm_up, color=PALE, zorder=0)
    axis.set_ylabel(unit)
    axis.set_ylim(bottom=0)
    axis.grid(color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right", ncols=3)


def _known(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _mb(values: Sequence[float | None]) -> list[float]:
    return [value / MB for value in _known(values)]
