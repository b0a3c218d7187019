"""`specdecode doctor`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from specdecode.cli.checks import run_checks
from specdecode.cli.console import JsonFlag, emit_json, stdout

_MARK = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[red]missing[/]"}


def doctor_command(
    target: Annotated[
        Path, typer.Option(help="Folder in which the target model is expected.")
    ] = Path("models/target"),
    as_json: JsonFlag = False,
) -> None:
    """Show what is installed, which device is used, and how to get what is missing.

    Exit code 1 when something a command cannot do without is missing.

    Example: specdecode doctor
    """
    checks = list(run_checks(target))
    healthy = all(check.status != "missing" for check in checks)
    if as_json:
        emit_json({"healthy": healthy, "checks": [asdict(check) for check in checks]})
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("", "what", "found", "to do"):
            table.add_column(heading)
        for check in checks:
            table.add_row(
                _MARK[check.status],
                check.name,
                escape(check.detail),
                escape(check.fix or ""),
            )
        stdout().print(table)
    if not healthy:
        raise typer.Exit(1)
