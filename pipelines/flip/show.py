"""The table of flips on a terminal and as Markdown. Words say what colours only repeat."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.flip.catalogue import FLIPS
from pipelines.flip.result import Flips, Metric, Row

COLOURS = {"GO": "green", "NO_GO": "red", "INCONCLUSIVE": "yellow", "INVALID": "magenta"}
COLUMNS = ("flip", "what changed", "verdict", "main measure", "decided by")
MOST_REASONS = 3


def print_table(table: Flips, console: Console) -> None:
    """Prints the table, the reasons under it, and a sentence on where the verdict turns."""
    shown = Table(pad_edge=False, show_lines=True)
    for name in COLUMNS:
        shown.add_column(name)
    for row in table.rows:
        verdict = Text(verdict_of(row), style=COLOURS.get(str(row.status or ""), ""))
        deciding = "" if row.deciding is None else measured(row.deciding)
        shown.add_row(row.name, row.change, verdict, headline(row), deciding)
    console.print(shown)
    for row in table.rows:
        for reason in reasons_of(row):
            console.print(Text(f"{row.name}: {reason}"), soft_wrap=True)
    console.print(Text(conclusion(table)), style="bold", soft_wrap=True)


def print_list(console: Console) -> None:
    """Prints which flips there are."""
    shown = Table(box=None, pad_edge=False)
    for name in ("flip", "taken for granted", "done instead"):
        shown.add_column(name)
    for flip in FLIPS.values():
        shown.add_row(flip.name, flip.assumption, flip.change)
    console.print(shown)


def markdown(table: Flips) -> str:
    """Returns the table, the reasons and the conclusion as a Markdown page."""
    lines = [
        "# Assumption flips",
        "",
        f"Plan `{table.plan_name}`, profile `{table.profile}`. {conclusion(table)}",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    for row in table.rows:
        deciding = "" if row.deciding is None else measured(row.deciding)
        cells = (row.name, row.change, verdict_of(row), headline(row), deciding)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for row in table.rows:
        lines += ["", f"## {row.name}", ""]
        lines += [f"* {line}" for line in (*row.changed, *row.reasons, *filter(None, [row.note]))]
    return "\n".join(lines) + "\n"


def verdict_of(row: Row) -> str:
    """Returns the status of a row, and whether it turned, in words."""
    if row.status is None:
        return "no verdict"
    return f"{row.status.value}, turned" if row.turned else row.status.value


def headline(row: Row) -> str:
    """Returns the number that all rows have in common."""
    return "not measured" if row.headline is None else measured(row.headline)


def measured(metric: Metric) -> str:
    """Returns a number with its interval, what was asked, and where the interval lies."""
    name = f"{metric.rule} ({metric.stratum})" if metric.stratum else metric.rule
    if metric.estimate is None:
        return f"{name}: {metric.outcome.value}"
    interval = (
        "no interval"
        if metric.low is None or metric.high is None
        else f"{metric.low:.3g} to {metric.high:.3g}"
    )
    text = f"{name}: {metric.estimate:.3g} ({interval})"
    if metric.threshold is None:
        return text
    text += f", {metric.side or 'threshold'} {metric.threshold:.3g} asked"
    place = {"above": "lies above", "below": "lies below", "across": "lies across"}
    return text if metric.position is None else f"{text}: {place[metric.position]}"


def reasons_of(row: Row) -> list[str]:
    """Returns the first reasons of a row, or why it has no verdict."""
    if row.note is not None:
        return [row.note]
    more = len(row.reasons) - MOST_REASONS
    return row.reasons[:MOST_REASONS] + ([f"and {more} more reasons"] if more > 0 else [])


def conclusion(table: Flips) -> str:
    """Returns where the verdict turns, and what no verdict can be told of."""
    first, others = table.rows[0], table.rows[1:]
    if first.status is None:
        return "The unchanged evaluation has no verdict, so nothing can be said to turn."
    turned = [row.name for row in others if row.turned]
    crossed = [row.name for row in others if _moved(first, row) and not row.turned]
    silent = [row.name for row in others if row.status is None]
    said = [f"Unchanged: {first.status.value}."]
    if turned:
        said.append(f"The verdict turns with: {', '.join(turned)}.")
    elif len(silent) < len(others):
        said.append("It turns with none of the flips that have a verdict.")
    if crossed:
        said.append(
            "The verdict stays and the main measure's interval moves to another side of its "
            f"threshold with: {', '.join(crossed)}."
        )
    if silent:
        said.append(f"No verdict: {', '.join(silent)}.")
    return " ".join(said)


def _moved(first: Row, row: Row) -> bool:
    before, after = first.headline, row.headline
    return (
        before is not None
        and after is not None
        and None not in (before.position, after.position)
        and before.position != after.position
    )
