"""`specdecode plan …`: which command lives where, and `plan check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.exit_codes import USAGE
from specdecode.cli.plan_new import new_command
from specdecode.cli.plan_power import power_command

if TYPE_CHECKING:
    from specdecode.governance.lints.base import Finding

plan_app = typer.Typer(help="Write, check and size plans.", no_args_is_help=True)

_STYLE = {"error": "bold red", "warning": "bold yellow"}


@plan_app.callback()
def _plan() -> None:
    """Write, check and size plans."""


@plan_app.command("check")
def check_command(
    file: Annotated[Path, typer.Argument(help="The plan (YAML).")],
    as_json: JsonFlag = False,
) -> None:
    """Check a plan, look for mistakes in it, and print its hash.

    Exit code 2 when a field is wrong (one message names it) or a mistake is found that makes the
    plan unfit; warnings leave it at 0.

    Example: specdecode plan check plans/default.yaml
    """
    from specdecode.errors import ConfigError
    from specdecode.governance import load_plan, plan_sha256
    from specdecode.governance.alpha import false_go_ledger
    from specdecode.governance.lint import lint

    plan = load_plan(file)
    digest = plan_sha256(plan)
    findings = lint(plan)
    fit = all(finding.severity != "error" for finding in findings)
    try:
        ledger = false_go_ledger(plan)
    except ConfigError:  # one of the findings says so
        ledger = None
    if as_json:
        emit_json(
            {
                "file": str(file),
                "valid": fit,
                "plan_sha256": digest,
                "findings": [asdict(finding) for finding in findings],
                "alpha": None if ledger is None else ledger.to_json(),
                "plan": plan.model_dump(mode="json", by_alias=True),
            }
        )
    else:
        console = stdout()
        console.print(f"{escape(str(file))}: {'valid' if fit else 'not fit to be used'}")
        console.print(f"plan_sha256 {digest}")
        if ledger is not None:
            parts = ", ".join(f"{name} {ledger.level(name):g}" for name in ledger.levels)
            console.print(f"false GO: at most {float(ledger.spent):g} over all stages ({parts})")
        for stage in plan.stages:
            units = f"{stage.n_min} to {stage.n_max or 'any number of'} {stage.unit}s"
            console.print(f"stage {stage.name}: {stage.method}, {units}")
        _show(findings)
    if not fit:
        raise typer.Exit(USAGE)


def _show(findings: Sequence[Finding]) -> None:
    console = stdout()
    for finding in findings:
        style = _STYLE[finding.severity]
        console.print(f"[{style}]{finding.severity}[/] {finding.code}: {escape(finding.message)}")
        console.print(f"  to do: {escape(finding.remedy)}")


plan_app.command("new")(new_command)
plan_app.command("power")(power_command)
