"""What a page is made of: sections with charts and tables whose cells are ready to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.report.chart import Chart

Tone = Literal["good", "bad", "unsure", "broken"]
_TONES: dict[str, Tone] = {
    "pass": "good",
    "go": "good",
    "lossless": "good",
    "ok": "good",
    "fail": "bad",
    "no_go": "bad",
    "biased": "bad",
    "invalid": "broken",
    "error": "broken",
}


def tone(outcome: str) -> Tone:
    """Tone of an outcome; what is not known to be good or bad is unsure, never good."""
    return _TONES.get(outcome.lower(), "unsure")


@dataclass(frozen=True)
class Badge:
    """A cell that is an outcome: coloured, and always spelt out."""

    text: str

    @property
    def tone(self) -> Tone:
        """Colour class."""
        return tone(self.text)


Cell = str | Badge


@dataclass(frozen=True)
class Table:
    """A table; the first column names the row.

    Attributes:
        caption: what it holds.
        columns: headings.
        rows: cells, ready to print.
        numeric: indices of columns set flush right.
        note: how to read it.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[int] = ()
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    name: str
    title: str
    lead: str = ""
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def numbers_table(chart: Chart) -> Table:
    """The table behind a picture."""
    rows = [[_cell(value) for value in row] for row in chart.rows]
    numeric = [
        index
        for index in range(1, len(chart.columns))
        if any(isinstance(row[index], int | float) for row in chart.rows)
    ]
    return Table(f"{chart.title}: numbers", chart.columns, rows, numeric)


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
