"""Pictures of acceptance: how many draft tokens a step keeps, and at which position they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pipelines.report.chart import Chart, absent
from pipelines.report.svg import new_figure, shortened
from pipelines.report.theme import Theme, marker, sort_arms

_WIDTH, _HEIGHT = 4.6, 3.4


def histogram(counts: Mapping[str, Sequence[int]]) -> Chart:
    """Share of steps by number of accepted draft tokens.

    Args:
        counts: steps by number of accepted tokens 0..G, for each arm that drafts.
    """
    name, title = "acceptance_histogram", "Accepted draft tokens per step"
    counts = {arm: list(steps) for arm, steps in counts.items() if sum(steps) > 0}
    if not counts:
        return absent(name, title, "No arm reported accepted tokens.")
    arms = sort_arms(list(counts))
    shares = {arm: [step / sum(counts[arm]) for step in counts[arm]] for arm in arms}
    alt = f"{title}. " + " ".join(
        f"{arm}: {shares[arm][-1]:.0%} of steps keep all {len(shares[arm]) - 1} draft tokens, "
        f"{shares[arm][0]:.0%} keep none."
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
        axes.set_xlabel("draft tokens accepted in a step")
        axes.set_ylabel("share of steps")
        figure.legend(loc="outside upper left", ncols=3, labelcolor=theme.ink)
        return figure

    rows = [
        (arm, accepted, counts[arm][accepted], shares[arm][accepted])
        for arm in arms
        for accepted in range(len(counts[arm]))
    ]
    caption = "A step drafts a block, then keeps the part of it that the target agrees with."
    columns = ("arm", "accepted", "steps", "share")
    return Chart(name, title, caption, alt, draw, columns, rows)


def by_position(
    conditional: Mapping[str, Sequence[float | None]],
    unconditional: Mapping[str, Sequence[float | None]],
) -> Chart:
    """Acceptance at each position of the block.

    Args:
        conditional: probability that position i is accepted, given that all before it were.
        unconditional: probability that positions 1..i are all accepted.
    """
    name, title = "acceptance_position", "Acceptance by position in the block"
    arms = sort_arms([arm for arm in unconditional if any(_known(unconditional[arm]))])
    if not arms:
        return absent(name, title, "No arm reported acceptance by position.")
    alt = f"{title}. " + " ".join(
        f"{arm}: position 1 {_first(unconditional[arm]):.0%}, "
        f"position {len(unconditional[arm])} {_last(unconditional[arm]):.0%} of steps."
        for arm in arms
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = new_figure(theme, _WIDTH, _HEIGHT)
        for source, style, suffix in (
            (conditional, "--", "given the ones before"),
            (unconditional, "-", "of all steps"),
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
                    label=f"{shortened(arm)}, {suffix}",
                )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(top=1.02)
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)
        axes.set_xlabel("position in the drafted block")
        axes.set_ylabel("accepted")
        figure.legend(loc="outside upper left", ncols=2, labelcolor=theme.ink)
        return figure

    rows = [
        (arm, position, _at(conditional.get(arm, ()), position), value)
        for arm in arms
        for position, value in enumerate(unconditional[arm], start=1)
    ]
    caption = (
        "Solid: share of all steps in which the block survives up to this position. "
        "Dashed: how often this position survives once all before it did."
    )
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
