"""Pictures of acceptance: how many draft tokens a step keeps, and at which position they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pipelines.report.chart import Chart, absent
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker, sort_arms
from pipelines.report.words import Words

_WIDTH, _HEIGHT = 4.6, 3.4


def histogram(counts: Mapping[str, Sequence[int]], words: Words) -> Chart:
    """Share of steps by number of accepted draft tokens.

    Args:
        counts: steps by number of accepted tokens 0..G, for each arm that drafts.
        words: texts of the page.
    """
    name, title = "acceptance_histogram", words("histogram.title")
    counts = {arm: list(steps) for arm, steps in counts.items() if sum(steps) > 0}
    if not counts:
        return absent(name, title, words("histogram.missing"))
    arms = sort_arms(list(counts))
    shares = {arm: [step / sum(counts[arm]) for step in counts[arm]] for arm in arms}
    alt = words("alt", title=title) + " ".join(
        words(
            "histogram.alt",
            arm=arm,
            all=f"{shares[arm][-1]:.0%}",
            drafted=len(shares[arm]) - 1,
            none=f"{shares[arm][0]:.0%}",
        )
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, _WIDTH, _HEIGHT)
        width = 0.8 / len(arms)
        for index, arm in enumerate(arms):
            left = (index - (len(arms) - 1) / 2) * width
            axes.bar(
                [position + left for position in range(len(shares[arm]))],
                shares[arm],
                width * 0.92,
                color=theme.arm(arm, arms),
                hatch="" if index == 0 else "///",
                edgecolor=theme.grid,
                linewidth=0.5,
                label=shortened(arm),
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel(words("histogram.x"))
        axes.set_ylabel(words("histogram.y"))
        figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink)
        return figure

    rows = [
        (arm, accepted, counts[arm][accepted], shares[arm][accepted])
        for arm in arms
        for accepted in range(len(counts[arm]))
    ]
    caption = words("histogram.caption")
    columns = ("arm", "accepted", "steps", "share")
    return Chart(name, title, caption, alt, draw, columns, rows)


def by_position(
    conditional: Mapping[str, Sequence[float | None]],
    unconditional: Mapping[str, Sequence[float | None]],
    words: Words,
) -> Chart:
    """Acceptance at each position of the block.

    Args:
        conditional: probability that position i is accepted, given that all before it were.
        unconditional: probability that positions 1..i are all accepted.
        words: texts of the page.
    """
    name, title = "acceptance_position", words("position.title")
    arms = sort_arms([arm for arm in unconditional if any(_known(unconditional[arm]))])
    if not arms:
        return absent(name, title, words("position.missing"))
    alt = words("alt", title=title) + " ".join(
        words(
            "position.alt",
            arm=arm,
            first=f"{_first(unconditional[arm]):.0%}",
            position=len(unconditional[arm]),
            last=f"{_last(unconditional[arm]):.0%}",
        )
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, _WIDTH, _HEIGHT)
        for source, style, suffix in (
            (conditional, "--", words("position.conditional")),
            (unconditional, "-", words("position.unconditional")),
        ):
            for arm in arms:
                points = [
                    (position, value)
                    for position, value in enumerate(source.get(arm, ()), start=1)
                    if value is not None
                ]
                axes.plot(
                    [position for position, _ in points],
                    [value for _, value in points],
                    style,
                    marker=marker(arm, arms),
                    markersize=5,
                    color=theme.arm(arm, arms),
                    label=words("position.line", arm=shortened(arm), what=suffix),
                )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(top=1.02)
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_xlabel(words("position.x"))
        axes.set_ylabel(words("position.y"))
        figure.legend(loc="outside upper left", ncols=2, labelcolor=theme.ink)
        return figure

    rows = [
        (arm, position, _at(conditional.get(arm, ()), position), value)
        for arm in arms
        for position, value in enumerate(unconditional[arm], start=1)
    ]
    caption = words("position.caption")
    columns = ("arm", "position", "conditional", "unconditional")
    return Chart(name, title, caption, alt, draw, columns, rows)


def _known(values: Sequence[float | None]) -> list[bool]:
    return [value is not None for value in values]


def _first(values: Sequence[float | None]) -> float:
    return next(value for value in values if value is not None)


def _last(values: Sequence[float | None]) -> float:
    return next(value for value in reversed(values) if value is not None)


def _at(values: Sequence[float | None], position: int) -> float | None:
    return values[position - 1] if position <= len(values) else None
