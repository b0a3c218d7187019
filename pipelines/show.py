"""Shows the outcome of an evaluation: the verdict with its reasons, its rules, the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from pipelines.stages.command import read_json

COLOURS = {"GO": "green", "NO_GO": "red", "INCONCLUSIVE": "yellow", "INVALID": "magenta"}
MEANING = {
    "GO": "the plan's conditions are met",
    "NO_GO": "at least one condition is violated: do not ship",
    "INCONCLUSIVE": "the evidence does not settle every condition: hold",
    "INVALID": "the evidence cannot be used: find out why",
}


def print_outcome(workspace: Path, console: Console | None = None) -> None:
    """Prints what reports/verdict.json of `workspace` says, and where the report is."""
    console = console or Console()
    verdict = read_json(workspace / "reports/verdict.json")
    console.print(_banner(verdict))
    console.print(_rules(verdict["rules"]))
    console.print(f"Report:  {workspace / 'reports/evaluation.html'}", soft_wrap=True)
    console.print(f"Numbers: {workspace / 'reports/metrics.json'}", soft_wrap=True)
    console.print("Runs:    make ui")


def _banner(verdict: dict[str, Any]) -> Panel:
    status = verdict["status"]
    reasons = "\n".join(f"• {escape(reason)}" for reason in verdict["reasons"])
    text = f"[bold]{status}[/bold]: {MEANING.get(status, '')}"
    return Panel(f"{text}\n{reasons}".rstrip(), border_style=COLOURS.get(status, "white"))


def _rules(rules: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("rule", "arm", "stratum", "estimate", "interval", "threshold", "n", "outcome"):
        numeric = title in ("estimate", "interval", "threshold", "n")
        table.add_column(title, justify="right" if numeric else "left")
    for rule in rules:
        table.add_row(
            str(rule["name"]),
            rule["arm"] or "",
            rule["stratum"] or "",
            _number(rule["estimate"]),
            _interval(rule["low"], rule["high"]),
            _number(rule["threshold"]),
            "" if rule["n"] is None else str(rule["n"]),
            str(rule["outcome"]),
        )
    return table


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "" if value is None else str(value)


def _interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    return f"{_number(low) or '-∞'} … {_number(high) or '∞'}"
