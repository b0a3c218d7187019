"""The evidence against losslessness, as it grows with the tokens read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from pipelines.report.chart import Chart, absent
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker, sort_arms
from pipelines.report.words import Words

Curve = Sequence[tuple[float, float]]


def evidence_curve(curves: Mapping[str, Curve], alpha: float | None, words: Words) -> Chart:
    """Log evidence over tokens for each arm, with the limit that would prove bias.

    Args:
        curves: (tokens read, natural log of the e-value) points by arm.
        alpha: error probability of the audit; the limit is log(1/alpha). None when unknown.
        words: texts of the page.
    """
    name, title = "losslessness_evidence", words("evidence.title")
    curves = {arm: list(points) for arm, points in curves.items() if points}
    if not curves:
        return absent(name, title, words("evidence.missing"))
    arms = sort_arms(list(curves))
    limit = None if alpha is None else math.log(1.0 / alpha)
    told = "" if limit is None else words("evidence.alt_limit", limit=f"{limit:.2f}") + " "
    alt = words("alt", title=title) + told
    alt += " ".join(
        words(
            "evidence.alt",
            arm=arm,
            last=f"{curves[arm][-1][1]:.2f}",
            tokens=f"{curves[arm][-1][0]:,.0f}",
            highest=f"{max(value for _, value in curves[arm]):.2f}",
        )
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, 4.6, 3.4)
        for arm in arms:
            axes.plot(
                [tokens for tokens, _ in curves[arm]],
                [value for _, value in curves[arm]],
                color=theme.arm(arm, arms),
                linewidth=1.6,
                marker=marker(arm, arms),
                markersize=4,
                markevery=max(1, len(curves[arm]) // 8),
                label=words("evidence.control", arm=arm) if arm == "plain" else shortened(arm),
            )
        if limit is not None:
            axes.axhline(
                limit,
                color=theme.alarm,
                linestyle=":",
                linewidth=1.8,
                label=words("evidence.limit"),
            )
        axes.axhline(0.0, color=theme.muted, linestyle="--", linewidth=1, zorder=0)
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_xlabel(words("evidence.x"))
        axes.set_ylabel(words("evidence.y"))
        figure.legend(loc="outside upper left", ncols=2, labelcolor=theme.ink)
        return figure

    rows = [(arm, tokens, value) for arm in arms for tokens, value in curves[arm]]
    caption = words("evidence.caption")
    return Chart(name, title, caption, alt, draw, ("arm", "tokens_read", "log_e_value"), rows)
