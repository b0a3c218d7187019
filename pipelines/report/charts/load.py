"""Speculation under load: the ratio to plain decoding at every number of requests in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pipelines.report.chart import Chart, absent
from pipelines.report.estimate import Estimate, reach_of
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker
from pipelines.report.words import Words


def load_curve(curves: Mapping[str, Sequence[tuple[int, Estimate]]], words: Words) -> Chart:
    """Throughput over plain decoding by concurrency.

    Args:
        curves: by arm, (requests in flight, ratio).
        words: texts of the page.
    """
    name, title = "load", words("load.chart")
    known = {
        arm: [(load, item) for load, item in found if item.drawable]
        for arm, found in curves.items()
    }
    arms = [arm for arm, found in known.items() if found]
    if not arms:
        return absent(name, title, words("load.nothing"))
    alt = words("alt", title=title) + " ".join(
        words(
            "load.alt",
            arm=arm,
            first=words.number(known[arm][0][1].value),
            least=known[arm][0][0],
            last=words.number(known[arm][-1][1].value),
            most=known[arm][-1][0],
        )
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, 4.6, 3.4)
        for arm in arms:
            loads = [load for load, _ in known[arm]]
            values = [float(item.value or 0.0) for _, item in known[arm]]
            reach = [reach_of(item) for _, item in known[arm]]
            axes.errorbar(
                loads,
                values,
                yerr=([below for below, _ in reach], [above for _, above in reach]),
                color=theme.arm(arm, arms),
                marker=marker(arm, arms),
                markersize=5,
                linewidth=1.6,
                capsize=2.5,
                label=shortened(arm),
            )
        axes.axhline(1.0, color=theme.muted, linestyle="--", linewidth=1, zorder=0)
        axes.set_xscale("log")
        ticks = sorted({load for arm in arms for load, _ in known[arm]})
        axes.set_xticks(ticks, [str(load) for load in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_xlabel(words("load.x"))
        axes.set_ylabel(words("load.y"))
        figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink)
        return figure

    rows = [
        (arm, load, item.value, item.low, item.high)
        for arm, found in curves.items()
        for load, item in found
    ]
    columns = ("arm", "concurrency", "estimate", "low", "high")
    return Chart(name, title, words("load.caption"), alt, draw, columns, rows)
