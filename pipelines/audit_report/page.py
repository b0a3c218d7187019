"""The tables of docs/audit-teeth.md, filled from the study on record."""

from __future__ import annotations

from typing import Any

from specdecode.errors import ConfigError


def filled(page: str, document: dict[str, Any]) -> str:
    """The page with the rows of its tables replaced; its sentences are a person's.

    A table's rows stand between `<!-- rows: NAME -->` and `<!-- end -->`, under its head.

    Raises:
        ConfigError: a table is not in the page.
    """
    for name, rows in _tables(document).items():
        opening = f"<!-- rows: {name} -->\n"
        before, found, rest = page.partition(opening)
        table, closing, after = rest.partition("<!-- end -->\n")
        head = table.splitlines(keepends=True)[:2]
        if not found or not closing or len(head) < 2:
            raise ConfigError(
                f"the page needs '{opening.strip()}', the head of that table and '<!-- end -->'"
            )
        body = [f"| {' | '.join(row)} |\n" for row in rows]
        page = "".join([before, opening, *head, *body, closing, after])
    return page


def _tables(document: dict[str, Any]) -> dict[str, list[list[str]]]:
    alarms = [_alarm("simulated", document["false_alarm"])]
    real = document["real_model"]
    if real is not None:
        alarms.append(_alarm("real model", real["false_alarm"]))
    ranked = sorted(document["faults"], key=lambda fault: -fault["tv"])
    return {
        "faults": [_fault(number, fault) for number, fault in enumerate(ranked, 1)],
        "alarms": alarms,
    }


def _fault(number: int, fault: dict[str, Any]) -> list[str]:
    return [
        str(number),
        f"`{fault['name']}`",
        fault["verification"],
        f"{fault['tv']:.4f}",
        _tokens(fault["median_tokens"]),
        _tokens(fault["p90_tokens"]),
        f"{fault['detected']} of {fault['runs']}",
    ]


def _tokens(found: int | None) -> str:
    return "not found" if found is None else f"{found:,}".replace(",", " ")


def _alarm(name: str, found: dict[str, Any]) -> list[str]:
    if found["rate"] is None:
        return [name, "0", "-", "no run"]
    return [
        name,
        str(found["runs"]),
        str(found["tokens_per_run"]),
        f"{found['rate']:.2%} ({found['low']:.2%} to {found['high']:.2%})",
    ]
