"""Shows the outcome of an evaluation: the verdict with its reasons, its rules, the page."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from pipelines.stages.command import read_json

COLOURS = {"GO": "green", "NO_GO": "red", "INCONCLUSIVE": "yellow", "INVALID": "magenta"}
MOST_REASONS = 6
WIDTH_IN_A_PIPE = 110
_PATHS = (
    ("Report:  ", "evaluation.html"),
    ("Numbers: ", "metrics.json"),
    ("Evidence:", "evidence/evaluation.zip"),
)
MEANING = {
    "GO": "the plan's conditions are met",
    "NO_GO": "at least one condition is violated: do not ship",
    "INCONCLUSIVE": "the evidence does not settle every condition: hold",
    "INVALID": "the evidence cannot be used: find out why",
}


def print_outcome(workspace: Path, console: Console | None = None) -> None:
    """Prints what reports/verdict.json of `workspace` says, and where the report is."""
    console = console or Console(width=None if sys.stdout.isatty() else WIDTH_IN_A_PIPE)
    verdict = read_json(workspace / "reports/verdict.json")
    console.print(_banner(verdict))
    console.print(_rules(verdict["rules"]))
    for title, path in _PATHS:
        console.print(f"{title} {workspace / 'reports' / path}", soft_wrap=True, highlight=False)
    console.print("Runs:     make ui", highlight=False)


def _banner(verdict: dict[str, Any]) -> Panel:
    status, reasons = verdict["status"], verdict["reasons"]
    lines = [f"[bold]{status}[/bold]: {MEANING.get(status, '')}", ""]
    lines += [f"• {escape(reason)}" for reason in reasons[:MOST_REASONS]]
    if len(reasons) > MOST_REASONS:
        lines.append(f"  and {len(reasons) - MOST_REASONS} more, see the report")
    return Panel("\n".join(lines), border_style=COLOURS.get(status, "white"))


def _rules(rules: list[dict[str, Any]]) -> Table:
    """One line a rule; what a rule found stratum by stratum is counted, the report lists it."""
    table = Table(box=None, pad_edge=False)
    for title in ("rule", "estimate", "interval", "wanted", "n", "outcome"):
        numeric = title not in ("rule", "outcome")
        table.add_column(title, justify="right" if numeric else "left", no_wrap=True)
    for name in dict.fromkeys(_line_of(rule) for rule in rules):
        entries = [rule for rule in rules if _line_of(rule) == name]
        if len(entries) > 1:
            table.add_row(name, "", "", "", "", _counted(entries))
        else:
            table.add_row(name, *_numbers(entries[0]), str(entries[0]["outcome"]))
    return table


def _line_of(rule: dict[str, Any]) -> str:
    return str(rule["name"]).split("/", maxsplit=1)[0]


def _counted(entries: list[dict[str, Any]]) -> str:
    counts = Counter(str(entry["outcome"]) for entry in entries)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())


def _numbers(rule: dict[str, Any]) -> list[str]:
    low, high = rule["low"], rule["high"]
    interval = "" if low is None or high is None else f"{_number(low)} … {_number(high)}"
    n = "" if rule["n"] is None else str(rule["n"])
    return [_number(rule["estimate"]), interval, _number(rule["threshold"]), n]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
