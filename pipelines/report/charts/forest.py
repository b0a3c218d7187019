"""Forest plot: one line a group, one marker with interval an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from pipelines.report.chart import Chart, absent
from pipelines.report.estimate import Estimate, reach_of
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker, sort_arms
from pipelines.report.words import Words

Groups = Sequence[tuple[str, Mapping[str, Estimate]]]
_WIDTH, _LINE, _FRAME = 4.6, 0.34, 1.0


def forest(
    name: str,
    title: str,
    groups: Groups,
    words: Words,
    *,
    quantity: str,
    caption: str,
    reference: float | None = None,
    limit: float | None = None,
    lacking: str | None = None,
) -> Chart:
    """Compare arms group by group.

    Args:
        name: file name and anchor.
        title: heading.
        groups: label and estimates by arm, from top to bottom.
        words: texts of the page.
        quantity: what the horizontal axis shows.
        caption: how to read it.
        reference: dashed line of "no difference".
        limit: dotted line of the plan's threshold.
        lacking: said in place of a group without any estimate; None: that it was not measured.
    """
    lacking = words("not_measured") if lacking is None else lacking
    arms = sort_arms([arm for _, by_arm in groups for arm in by_arm])
    drawable = [
        (label, arm, by_arm[arm])
        for label, by_arm in groups
        for arm in arms
        if arm in by_arm and by_arm[arm].drawable
    ]
    if not drawable:
        return absent(name, title, words("forest.missing", lacking=lacking, caption=caption))
    lowest = min(drawable, key=lambda item: item[2].value or 0.0)
    highest = max(drawable, key=lambda item: item[2].value or 0.0)
    alt = words("alt", title=title) + words(
        "forest.alt",
        quantity=quantity,
        low=f"{lowest[2].value:.2f}",
        low_group=lowest[0],
        low_arm=lowest[1],
        high=f"{highest[2].value:.2f}",
        high_group=highest[0],
        high_arm=highest[1],
    )

    def draw(theme: Theme) -> Figure:
        return _draw(
            theme,
            groups,
            arms,
            quantity=quantity,
            reference=reference,
            limit=limit,
            limit_label=words("forest.limit"),
            lacking=lacking,
        )

    rows = [
        (label, arm, by_arm[arm].value, by_arm[arm].low, by_arm[arm].high, by_arm[arm].n)
        for label, by_arm in groups
        for arm in arms
        if arm in by_arm
    ]
    return Chart(
        name, title, caption, alt, draw, ("group", "arm", "estimate", "low", "high", "n"), rows
    )


def _draw(
    theme: Theme,
    groups: Groups,
    arms: Sequence[str],
    *,
    quantity: str,
    reference: float | None,
    limit: float | None,
    limit_label: str,
    lacking: str,
) -> Figure:
    lines = max(len(groups), 2) * max(1.0, 0.55 * len(arms))
    figure, axes = new_figure(theme, _WIDTH, _FRAME + 0.25 * len(arms) + _LINE * lines)
    offsets = {arm: (index - (len(arms) - 1) / 2) * 0.26 for index, arm in enumerate(arms)}
    for arm in arms:
        points = [
            (row + offsets[arm], by_arm[arm])
            for row, (_, by_arm) in enumerate(groups)
            if arm in by_arm and by_arm[arm].drawable
        ]
        values = [float(item.value or 0.0) for _, item in points]
        reach = [reach_of(item) for _, item in points]
        axes.errorbar(
            values,
            [y for y, _ in points],
            xerr=([below for below, _ in reach], [above for _, above in reach]),
            fmt=marker(arm, arms),
            color=theme.arm(arm, arms),
            markersize=5,
            elinewidth=1.8,
            capsize=2.5,
            linestyle="none",
            label=shortened(arm),
        )
    for row, (_, by_arm) in enumerate(groups):
        if not any(item.drawable for item in by_arm.values()):
            axes.annotate(
                lacking,
                (0.02, row),
                xycoords=axes.get_yaxis_transform(),
                va="center",
                style="italic",
                color=theme.muted,
            )
    if reference is not None:
        axes.axvline(reference, color=theme.muted, linestyle="--", linewidth=1, zorder=0)
    if limit is not None:
        axes.axvline(
            limit, color=theme.alarm, linestyle=":", linewidth=1.6, zorder=0, label=limit_label
        )
    axes.set_yticks(range(len(groups)), [shortened(label) for label, _ in groups])
    axes.set_ylim(len(groups) - 0.45, -0.55)
    axes.grid(axis="x", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(quantity)
    figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink, handletextpad=0.3)
    return figure
