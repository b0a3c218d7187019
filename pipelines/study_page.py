"""The tables of docs/study.md, filled from the study on record. Its sentences are a person's."""

from __future__ import annotations

from typing import Any

from specdecode.errors import ConfigError


def filled(page: str, document: dict[str, Any]) -> str:
    """The page with the rows of its tables replaced.

    A table's rows stand between `<!-- rows: NAME -->` and `<!-- end -->`, under its head.

    Args:
        page: text of docs/study.md.
        document: content of reports/governance/study.json.

    Raises:
        ConfigError: a table is not in the page.
    """
    for name, rows in _tables(document).items():
        opening = f"<!-- rows: {name} -->\n"
        if page.count(opening) != 1:
            raise ConfigError(
                f"the page has {page.count(opening)} places '{opening.strip()}', not 1"
            )
        before, _, rest = page.partition(opening)
        table, closing, after = rest.partition("<!-- end -->\n")
        head = table.splitlines(keepends=True)[:2]
        if not closing or len(head) < 2:
            raise ConfigError(f"the page needs the head of table {name}, then '<!-- end -->'")
        body = [f"| {' | '.join(row)} |\n" for row in rows]
        page = "".join([before, opening, *head, *body, closing, after])
    return page


def scenarios_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every scenario of a study that keeps its runs, in order."""
    cases, missed, power = (
        document["false_go"]["cases"],
        document["missed_bias"],
        document["power"],
    )
    return [document["false_alarm"], *cases, *missed, *power]


def _tables(document: dict[str, Any]) -> dict[str, list[list[str]]]:
    alarm = document["false_alarm"]
    chances = ("GO", "INCONCLUSIVE", "NO_GO")
    return {
        "false_go": [
            [case["name"], _cell(case), _cell(case["rule_passes"]), f"{case['alpha']:.1%}"]
            for case in document["false_go"]["cases"]
        ],
        "by_prompts": [
            [entry["name"].partition(",")[0], str(entry["prompts"]), _cell(entry)]
            for entry in sorted(document["by_prompts"], key=_border_and_size)
        ],
        "false_alarm": [
            *([f"`{a['rule']}`", _cell(a), f"{a['alpha']:.1%}"] for a in alarm["alarms"]),
            ["any of them", _cell(alarm), f"{alarm['alpha']:.1%}"],
        ],
        "all": [
            [entry["name"], *(_cell(entry["chances"][status]) for status in chances)]
            for entry in scenarios_of(document)
        ],
    }


def _border_and_size(entry: dict[str, Any]) -> tuple[str, int]:
    return entry["name"].partition(",")[0], entry["prompts"]


def _cell(found: dict[str, Any]) -> str:
    return f"{found['rate']:.2%} ({found['low']:.2%}–{found['high']:.2%})"
