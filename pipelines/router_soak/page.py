"""What was measured inside docs/router-soak.md; what surrounds it is written by people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdecode.durable import written_whole
from specdecode.errors import ConfigError

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_page(path: Path, report: dict[str, Any]) -> None:
    """Put the result in its place.

    Args:
        path: the page.
        report: of a soak.

    Raises:
        ConfigError: the page has no place for it.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"{path}: put the lines {BEGIN} and {END} where the result belongs")
    with written_whole(path) as file:
        file.write(f"{before}{BEGIN}\n{told(report)}\n{END}{after}".encode())


def told(report: dict[str, Any]) -> str:
    """The result in words and a table."""
    machine, plan, users = report["machine"]["hardware"], report["plan"], report["users"]
    verdict = "**Passed**" if report["passed"] else "**Failed**"
    head = (
        f"{verdict}: {plan['minutes']:g} minutes on {machine['cpu']}, {machine['cores']} cores, "
        f"{report['started_at'][:10]}; {users['sent']} requests, {users['leaving']} of them of "
        "users who left."
    )
    lines = ["| check | found | wanted | |", "|---|---|---|---|"]
    for check in report["checks"]:
        cells = (check["name"], check["found"], check["wanted"], "yes" if check["passed"] else "no")
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([head, "", *lines])
