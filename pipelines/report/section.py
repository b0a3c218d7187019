"""What a page is made of: sections with charts and tables whose cells are ready to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.report.chart import Chart
from pipelines.report.words import Words

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
    """A cell that is an outcome: coloured, and always spelt out.

    Attributes:
        code: the outcome as in the data.
        text: what it is called.
    """

    code: str
    text: str

    @property
    def tone(self) -> Tone:
        """Colour class."""
        return tone(self.code)


@dataclass(frozen=True)
class Quoted:
    """A text shown as somebody wrote it, in another language than the page or an unknown one.

    Attributes:
        text: as written.
        language: its language tag; empty when unknown.
    """

    text: str
    language: str = ""


Cell = str | Badge | Quoted


def badge(words: Words, code: str) -> Badge:
    """An outcome as a cell."""
    return Badge(code, words.label("outcome", code.lower().replace(" ", "_")))


def quote(words: Words, text: str, language: str = "") -> str | Quoted:
    """A text that is not of the catalogue: plain where the page is in English anyway."""
    return text if words.language == "en" else Quoted(text, language)


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
    lead: str | Quoted = ""
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str | Quoted] = ()


def numbers_table(chart: Chart, words: Words) -> Table:
    """The table behind a picture."""
    rows = [[_cell(value, words) for value in row] for row in chart.rows]
    numeric = [
        index
        for index in range(1, len(chart.columns))
        if any(isinstance(row[index], int | float) for row in chart.rows)
    ]
    columns = [words(f"column.{name}") for name in chart.columns]
    return Table(words("numbers_of", title=chart.title), columns, rows, numeric)


def _cell(value: str | int | float | None, words: Words) -> str:
    if value is None:
        return words("not_measured")
    return f"{value:.4g}" if isinstance(value, float) else str(value)
