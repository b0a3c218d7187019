"""`specdecode doctor`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from specdecode.cli.checks import run_checks
from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.server_checks import check_servers

_MARK = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[red]missing[/]"}


def doctor_command(
    target: Annotated[
        Path, typer.Option(help="Folder in which the target model is expected.")
    ] = Path("models/target"),
    server: Annotated[
        list[str] | None,
        typer.Option(help="Address of a server: which engine answers there? Repeat for more."),
    ] = None,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the servers' API key.")
    ] = "OPENAI_API_KEY",
    as_json: JsonFlag = False,
) -> None:
    """Show what is installed, which device is used, and how to get what is missing.

    Exit code 1 when something a command cannot do without is missing, or a server does not answer.

    Example: specdecode doctor --server http://127.0.0.1:8000
    """
    key = os.environ.get(api_key_env) or None
    checks = [*run_checks(target), *check_servers(server or (), api_key=key)]
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
