"""Acceptance in the order of measurement: a draft that stops fitting shows as a drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipelines.report.chart import Chart, absent
from pipelines.report.estimate import Estimate, reach_of
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker, sort_arms
from pipelines.report.words import Words

Stretch = tuple[int, int, Estimate]


def over_time(stretches: Mapping[str, Sequence[Stretch]], words: Words) -> Chart:
    """Mean acceptance length of consecutive stretches of the run.

    Args:
        stretches: by arm, (first, last place in the order of measurement, tokens per step).
        words: texts of the page.
    """
    name, title = "acceptance_time", words("over_time.title")
    known = {
        arm: found for arm, found in stretches.items() if any(item.drawable for _, _, item in found)
    }
    if not known:
        return absent(name, title, words("over_time.missing"))
    arms = sort_arms(list(known))
    points = {
        arm: [((first + last) / 2, item) for first, last, item in known[arm] if item.drawable]
        for arm in arms
    }
    alt = words("alt", title=title) + " ".join(
        words(
            "over_time.alt",
            arm=arm,
            first=words.number(points[arm][0][1].value),
            last=words.number(points[arm][-1][1].value),
            lowest=words.number(min(float(item.value or 0.0) for _, item in points[arm])),
        )
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, 4.6, 3.4)
        for arm in arms:
            values = [float(item.value or 0.0) for _, item in points[arm]]
            reach = [reach_of(item) for _, item in points[arm]]
            axes.errorbar(
                [place for place, _ in points[arm]],
                values,
                yerr=([below for below, _ in reach], [above for _, above in reach]),
                color=theme.arm(arm, arms),
                marker=marker(arm, arms),
                markersize=4,
                linewidth=1.6,
                elinewidth=1.0,
                capsize=2,
                label=shortened(arm),
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_xlabel(words("over_time.x"))
        axes.set_ylabel(words("over_time.y"))
        figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink)
        return figure

    rows = [
        (arm, first, last, item.value, item.low, item.high, item.n)
        for arm in arms
        for first, last, item in known[arm]
    ]
    columns = ("arm", "from", "to", "estimate", "low", "high", "n")
    return Chart(name, title, words("over_time.caption"), alt, draw, columns, rows)
