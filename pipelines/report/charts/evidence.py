"""The evidence against losslessness, as it grows with the tokens read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from pipelines.report.chart import Chart, absent
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker, sort_arms

Curve = Sequence[tuple[float, float]]


def evidence_curve(curves: Mapping[str, Curve], alpha: float | None) -> Chart:
    """Log evidence over tokens for each arm, with the limit that would prove bias.

    Args:
        curves: (tokens read, natural log of the e-value) points by arm.
        alpha: error probability of the audit; the limit is log(1/alpha). None when unknown.
    """
    name, title = "losslessness_evidence", "Evidence against losslessness"
    curves = {arm: list(points) for arm, points in curves.items() if points}
    if not curves:
        return absent(name, title, "The audit read no sampled tokens, so it has no curve to show.")
    arms = sort_arms(list(curves))
    limit = None if alpha is None else math.log(1.0 / alpha)
    told = "" if limit is None else f" The limit is {limit:.2f}."
    alt = f"{title}.{told} " + " ".join(
        f"{arm}: {curves[arm][-1][1]:.2f} after {curves[arm][-1][0]:,.0f} tokens, "
        f"highest {max(value for _, value in curves[arm]):.2f}."
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
                label=f"{arm} (control)" if arm == "plain" else shortened(arm),
            )
        if limit is not None:
            axes.axhline(
                limit, color=theme.alarm, linestyle=":", linewidth=1.8, label="limit: biased"
            )
        axes.axhline(0.0, color=theme.muted, linestyle="--", linewidth=1, zorder=0)
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_xlabel("output tokens read")
        axes.set_ylabel("log of the e-value")
        figure.legend(loc="outside upper left", ncols=2, labelcolor=theme.ink)
        return figure

    rows = [(arm, tokens, value) for arm in arms for tokens, value in curves[arm]]
    caption = (
        "A lossless arm drifts down or stays near zero; one that crosses the limit is biased, and "
        "it may be looked at after every token. Plain decoding is the control: were it to rise, "
        "the test itself would be at fault."
    )
    return Chart(name, title, caption, alt, draw, ("arm", "tokens_read", "log_e_value"), rows)
