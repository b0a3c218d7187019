"""A run's description: the verdict as a person reads it, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_ROWS = 12
_LISTS = {"What would change it": "to_change", "Judge it again when": "reopen_when"}
_HEAD = [
    "",
    "| rule | outcome | estimate | interval | asked | prompts |",
    "|---|---|--:|:-:|--:|--:|",
]


def note(verdict: Mapping[str, Any]) -> str:
    """Returns the verdict with its reasons, its rules and what would change it.

    Args:
        verdict: the document reports/verdict.json.
    """
    lines = [f"## {verdict['status']}", "", verdict["claim"], ""]
    lines += [f"- {reason}" for reason in verdict["reasons"]]
    lines += _rules(verdict)
    for title, key in _LISTS.items():
        if verdict[key]:
            lines += ["", f"**{title}**", "", *(f"- {entry}" for entry in verdict[key])]
    return "\n".join(lines)


def _rules(verdict: Mapping[str, Any]) -> list[str]:
    """Rules over all prompts, and strata only where they did not pass; integrity likewise."""
    shown = [
        rule
        for rule in verdict["rules"]
        if rule["counts"]
        and (rule["outcome"] != "pass" or (rule["role"] != "integrity" and not rule["stratum"]))
    ]
    if not shown:
        return []
    table = list(_HEAD)
    for rule in shown[:_MOST_ROWS]:
        name = rule["name"] + (f" ({rule['stratum']})" if rule["stratum"] else "")
        interval = f"{_number(rule['low'])} to {_number(rule['high'])}"
        cells = [
            name,
            rule["outcome"],
            _number(rule["estimate"]),
            "" if rule["low"] is None and rule["high"] is None else interval,
            _number(rule["threshold"]),
            _number(rule["n"]),
        ]
        table.append(f"| {' | '.join(cells)} |")
    if len(shown) > _MOST_ROWS:
        table += ["", f"and {len(shown) - _MOST_ROWS} more; the report has all of them."]
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
