"""Where a visible token's time goes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from pipelines.report.chart import Chart, absent
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, sort_arms

PARTS = ("draft", "verify", "other")
_HATCH = {"draft": "", "verify": "///", "other": ""}


def time_budget(milliseconds: Mapping[str, Mapping[str, float | None]]) -> Chart:
    """Milliseconds per visible token, split into drafting, verifying and the rest.

    Args:
        milliseconds: by arm and part; a part that was not measured is None and draws nothing.
    """
    name, title = "time_budget", "Where the time goes"
    known = {
        arm: parts
        for arm, parts in milliseconds.items()
        if any(parts.get(part) is not None for part in PARTS)
    }
    if not known:
        return absent(name, title, "No arm reported its time by part.")
    arms = sort_arms(list(known))
    alt = f"{title}, milliseconds per visible token. " + " ".join(
        f"{arm}: "
        + ", ".join(
            f"{part} {'not measured' if value is None else f'{value:.1f}'}"
            for part in PARTS
            for value in (known[arm].get(part),)
        )
        + "."
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, 4.6, 1.3 + 0.5 * len(arms))
        left = dict.fromkeys(arms, 0.0)
        for part, colour in zip(PARTS, theme.parts, strict=True):
            widths = [known[arm].get(part) or 0.0 for arm in arms]
            axes.barh(
                [shortened(arm) for arm in arms],
                widths,
                left=[left[arm] for arm in arms],
                height=0.6,
                color=colour,
                hatch=_HATCH[part],
                edgecolor=theme.grid,
                linewidth=0.5,
                label=part,
            )
            left = {arm: left[arm] + width for arm, width in zip(arms, widths, strict=True)}
        axes.invert_yaxis()
        axes.grid(axis="x", color=theme.grid, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("milliseconds per visible token")
        figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink)
        return figure

    rows = [(arm, *(known[arm].get(part) for part in PARTS)) for arm in arms]
    caption = "Drafting pays when it costs less than the target passes it saves."
    columns = ("arm", "draft_ms", "verify_ms", "other_ms")
    return Chart(name, title, caption, alt, draw, columns, rows)
