"""`specdecode plan …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.pretty import Pretty

from specdecode.cli.console import JsonFlag, emit_json, stdout

plan_app = typer.Typer(help="Write and check plans.", no_args_is_help=True)


@plan_app.callback()
def _plan() -> None:
    """Write and check plans."""


@plan_app.command("check")
def check_command(
    file: Annotated[Path, typer.Argument(help="The plan (YAML).")],
    as_json: JsonFlag = False,
) -> None:
    """Check a plan and print its hash.

    Exit code 2 and one message naming the field when the plan is wrong.
    """
    from specdecode.governance import load_plan, plan_sha256

    plan = load_plan(file)
    digest = plan_sha256(plan)
    content = plan.model_dump(mode="json")
    if as_json:
        emit_json({"file": str(file), "valid": True, "plan_sha256": digest, "plan": content})
        return
    console = stdout()
    console.print(f"{escape(str(file))}: valid")
    console.print(f"plan_sha256 {digest}")
    console.print(Pretty(content))
