"""Where a visible token's time goes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from pipelines.report.chart import Chart, absent
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, sort_arms
from pipelines.report.words import Words

PARTS = ("draft", "verify", "other")
_HATCH = {"draft": "", "verify": "///", "other": ""}


def time_budget(milliseconds: Mapping[str, Mapping[str, float | None]], words: Words) -> Chart:
    """Milliseconds per visible token, split into drafting, verifying and the rest.

    Args:
        milliseconds: by arm and part; a part that was not measured is None and draws nothing.
        words: texts of the page.
    """
    name, title = "time_budget", words("budget.title")
    known = {
        arm: parts
        for arm, parts in milliseconds.items()
        if any(parts.get(part) is not None for part in PARTS)
    }
    if not known:
        return absent(name, title, words("budget.missing"))
    arms = sort_arms(list(known))
    alt = words("alt", title=title) + " ".join(
        words("budget.alt", arm=arm, parts=_spoken(known[arm], words)) for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, 4.6, 1.3 + 0.5 * len(arms))
        left = dict.fromkeys(arms, 0.0)
        for part, colour in zip(PARTS, theme.parts, strict=True):
            widths = [known[arm].get(part) or 0.0 for arm in arms]
            axes.barh(
                range(len(arms)),
                widths,
                left=[left[arm] for arm in arms],
                height=0.6,
                color=colour,
                hatch=_HATCH[part],
                edgecolor=theme.grid,
                linewidth=0.5,
                label=words(f"part.{part}"),
            )
            left = {arm: left[arm] + width for arm, width in zip(arms, widths, strict=True)}
        axes.set_yticks(range(len(arms)), [shortened(arm) for arm in arms])
        axes.invert_yaxis()
        axes.grid(axis="x", color=theme.grid, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel(words("budget.x"))
        figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink)
        return figure

    rows = [(arm, *(known[arm].get(part) for part in PARTS)) for arm in arms]
    caption = words("budget.caption")
    columns = ("arm", "draft_ms", "verify_ms", "other_ms")
    return Chart(name, title, caption, alt, draw, columns, rows)


def _spoken(parts: Mapping[str, float | None], words: Words) -> str:
    return words("list_comma").join(
        f"{words(f'part.{part}')} {words.number(parts.get(part), 1)}" for part in PARTS
    )
