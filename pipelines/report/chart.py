"""A chart with the table behind it: whoever cannot see the picture reads the same numbers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.report.svg import Draw, inline_svg, write_png

Value = str | int | float | None


@dataclass(frozen=True)
class Chart:
    """One picture.

    Attributes:
        name: file name and anchor.
        title: what is shown.
        caption: how to read it.
        alt: what it shows, in words and numbers.
        draw: makes the figure in given colours; None when there is nothing to draw.
        columns: headings of the table behind the picture.
        rows: its rows; None is "not measured".
        missing: why nothing could be drawn; None when something was.
    """

    name: str
    title: str
    caption: str
    alt: str
    draw: Draw | None
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    missing: str | None = None

    @property
    def svg(self) -> str | None:
        """The picture as markup, or None when there is nothing to draw."""
        return (
            None
            if self.draw is None
            else inline_svg(self.draw, name=f"figure-{self.name}", alt=self.alt)
        )


def absent(name: str, title: str, reason: str) -> Chart:
    """A chart that could not be drawn, and why."""
    return Chart(name, title, "", "", None, (), (), missing=reason)


def write_files(charts: Sequence[Chart], folder: Path) -> None:
    """Write each chart as NAME.png and NAME.csv, and remove those of charts that are gone.

    Args:
        charts: the charts of the page.
        folder: created if needed; owned by the report, so stale files are deleted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (*folder.glob("*.png"), *folder.glob("*.csv")):
        stale.unlink()
    for chart in charts:
        if chart.draw is None:
            continue
        write_png(chart.draw, folder / f"{chart.name}.png")
        with (folder / f"{chart.name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(chart.columns)
            writer.writerows(
                ["" if value is None else value for value in row] for row in chart.rows
            )
